"""Boards with dynamics: engines, traffic, clocks, power and heat that act on each other."""
