"""Scenarios beside a running service, and towards a Prometheus."""
