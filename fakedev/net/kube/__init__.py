"""The connection with a Kubernetes cluster: the client of the API, watches, the port of fakedev-node."""
