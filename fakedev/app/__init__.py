"""Composition: the only place where services are put together."""
