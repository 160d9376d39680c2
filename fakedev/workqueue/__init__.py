"""Queues, jobs, leases, statistics. Pure. Empty until the work queue is built."""
