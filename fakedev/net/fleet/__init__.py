"""The running fleet: clock, workload port, workloads, faults, journal, record."""
