"""The fleet in a Kubernetes cluster: nodes and pods come in; patches, ResourceSlices and Events go out.

Start with `cluster.py`, the rules; `nodes.py`, `pod_records.py`, `node_ledger.py` (who has which device),
`allocation.py`, `dra.py`, `health.py` and `node_status.py` are its parts. Modules of run-ai's fake-gpu-operator begin
with `operator`; `cleaning.py` removes what fakedev wrote. Touch the outside: `follower.py` and `controller.py` (follow
a cluster), `api_client.py`, `watch.py`, `lease.py`, `writer.py`, `owned_objects.py`, `node_port.py` and
`operator_port.py` (reactor, sockets). Objects DeviceFault: `device_fault.py`, `fault_signs.py`,
`fault_landing.py`; `fault_objects.py` follows them.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    "api_client", "cleaning", "controller", "fault_objects", "follower", "lease", "node_port", "operator_port",
    "owned_objects", "part", "watch", "writer",
)
