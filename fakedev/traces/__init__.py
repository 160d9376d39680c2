"""Traces of clusters: their tables, the jobs and nodes in them, where jobs run, and scenarios made of them."""
