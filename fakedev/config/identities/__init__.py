"""Identities as files describe them: families, rows, counters."""
