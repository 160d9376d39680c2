"""A real Prometheus and its tools."""
