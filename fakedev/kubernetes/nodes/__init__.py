"""Simulated nodes: what they are, the labels and status that are written to them, and the port of fakedev-node.

Start with `simulated_node.py`; `node_table.py` has them by name. `node_view.py` is what a node's kubelet needs to know;
`node_port.py`, which touches the outside, tells it.
"""
