"""Device types and boards as files and pools describe them."""
