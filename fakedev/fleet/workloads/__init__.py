"""Workloads from admission to their end: profiles, churn, demand on devices, verdicts and owners."""
