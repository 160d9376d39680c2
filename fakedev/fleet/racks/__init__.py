"""Racks: CPUs beside the boards, power that modules and racks share, coolant, and the health of an NVLink fabric."""
