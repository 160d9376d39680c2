"""Frozen values that every room may use: units, quantities, device types, profiles, faults. No NumPy. Pure."""
