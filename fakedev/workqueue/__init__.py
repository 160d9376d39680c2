"""The work queue: queues, jobs, leases, statistics. Pure."""
