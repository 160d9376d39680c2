"""fakedev-node: offers the simulated devices of a node to its kubelet, by device plugins and DRA over gRPC.

Start with `main.py` and `agent.py`. `service_link.py` is the connection with the service; `device_plugin.py`,
`dra_plugin.py` and `pod_resources.py` exchange the messages in `kubelet.py` with the kubelet. `nvml.py` writes files
for containers. All modules touch the outside (sockets, threads, disk, clock).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    "__main__", "agent", "device_plugin", "dra_plugin", "kubelet", "main", "nvml", "pod_resources", "service_link",
)
