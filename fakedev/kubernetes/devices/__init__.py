"""The devices of nodes: what is offered to pods, who has it, and how healthy it is.

Start with `node_ledger.py` (who has which device). `offered_devices.py` has the ids and resources, `allocation.py`
which free devices a container gets, `dra.py` claims and ResourceSlices, `health.py` what a fault does to a device.
"""
