"""Test clients: they put load on a queue, measure and report."""
