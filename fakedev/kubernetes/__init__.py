"""The fleet in a Kubernetes cluster: nodes and pods come in; patches, ResourceSlices and Events go out.

Start with `cluster.py`, the rules. `devices/` says who has which device, `nodes/` what a node offers and shows,
`workloads/` what the fleet runs for pods, `domains/` which nodes objects ComputeDomain have, `faults/` what objects
DeviceFault ask for, `runai/` how run-ai's fake-gpu-operator says it. Touch the outside: `client/` (the API server),
`follower.py` and `controller.py` (follow a cluster), `writer.py` and `owned_objects.py` (what is written), and
`cleaning.py`, which removes that.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    *("cleaning", "controller", "follower", "owned_objects", "part", "writer"),
    *("client/api_client", "client/lease", "client/watch", "domains/domain_objects", "faults/fault_objects"),
    *("nodes/node_port", "runai/operator_port"),
)
