"""State and identity to text: rows, families, labels, number formats. Pure."""
