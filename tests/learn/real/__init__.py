"""Tests of learn with a real Prometheus."""
