"""``fakedev faults --for RULES``: which fault makes which alert rule fire, found by simulation."""
