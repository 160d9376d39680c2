"""What exporters count of the reports of their boards: over windows of time, or since the start."""
