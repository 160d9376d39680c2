"""fakedev-workload, for crowds: without Twisted and NumPy."""
