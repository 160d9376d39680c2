"""Tests of the topologies of run-ai's fake-gpu-operator."""
