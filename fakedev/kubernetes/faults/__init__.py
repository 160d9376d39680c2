"""The objects DeviceFault of a cluster: what they ask for, and where their faults are seen.

Start with `device_fault.py` (the object), then `fault_landing.py` (where it is seen) and `fault_signs.py` (by which
quantity). `fault_objects.py`, which touches the outside, follows the objects.
"""
