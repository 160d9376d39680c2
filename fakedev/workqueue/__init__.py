"""Queues, jobs, leases, statistics. Pure."""
