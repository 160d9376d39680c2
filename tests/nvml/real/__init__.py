"""Tests of nvml."""
