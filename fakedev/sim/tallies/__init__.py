"""What exporters count themselves of what their boards report: over windows of time, or since they began."""
