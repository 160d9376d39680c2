"""Links between the devices of a node, and the switches that they lead to."""
