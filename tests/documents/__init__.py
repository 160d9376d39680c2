"""Documents hold what they say."""
