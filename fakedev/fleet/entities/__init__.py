"""Nodes, devices, parts and links: their names, positions, selection by device words, randomness and states."""
