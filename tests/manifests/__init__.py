"""The manifests for Kubernetes in etc/kubernetes: their form, what they allow, what kubectl and helm make of them."""
