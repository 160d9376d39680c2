"""Traces of clusters: tables, formats, placement, replay and comparison."""
