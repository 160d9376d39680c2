"""Real programs that tests start."""
