"""End to end: fakedev with a cluster. Each test runs against the API server of the tests, and against the cluster that
``FAKEDEV_TEST_KUBECONFIG`` names (one for tests: they create and remove nodes and pods in it)."""
