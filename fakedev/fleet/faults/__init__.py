"""Faults of devices and of their exporters: which are possible, when they begin and end, and their effects."""
