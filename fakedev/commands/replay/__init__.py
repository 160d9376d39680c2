"""``fakedev replay``: a trace of a cluster on simulated devices."""
