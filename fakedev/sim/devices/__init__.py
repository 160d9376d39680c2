"""The quantities of devices: memory, PCIe, ratings, errors, and the relations between all."""
