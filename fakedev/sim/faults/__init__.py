"""Faults of devices and of their exporters: what can go wrong, when it does, and what follows."""
