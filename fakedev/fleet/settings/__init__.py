"""Sections of the configuration about the fleet: device types, pools, nodes, workloads and faults, with their keys."""
