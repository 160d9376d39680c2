"""fakedev-workload: asks a server to simulate a workload, for crowds of processes; without Twisted and NumPy."""
