"""Nodes, devices, parts and links: who they are, how they are named, selected and carried over."""
