"""Fleets, boards and workloads that tests look at, and the rules that always hold."""
