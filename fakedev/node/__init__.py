"""fakedev-node: the devices of one node for its kubelet, over gRPC."""
