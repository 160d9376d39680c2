"""Services as processes, from their start to their end."""
