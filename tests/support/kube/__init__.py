"""A Kubernetes API server in memory, and what tests of the cluster's side share."""
