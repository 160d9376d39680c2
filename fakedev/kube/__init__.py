"""The fleet in a Kubernetes cluster: objects of the API in, patches, events and workloads out. Pure."""
