"""Programs that take the place of the originals: their flags, addresses and defaults."""
