"""Quantities of devices from the demand of workloads: memory, PCIe, counters, reported errors, lost devices."""
