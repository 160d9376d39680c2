"""Pages of a real fleet in; the configuration of a fleet that looks like it out."""
