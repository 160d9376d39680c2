"""Programs of a cluster, with API servers and kubelets made for the tests, and real ones where they are."""
