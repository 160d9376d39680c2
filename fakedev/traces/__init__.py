"""Traces of real clusters: their files, one model of them, placement, and how true a replay is."""
