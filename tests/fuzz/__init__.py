"""Hostile input for everything that reads: ``make fuzz`` (see HACKING.md)."""
