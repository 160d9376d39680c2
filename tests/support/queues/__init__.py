"""Queues: a plain broker to compare with, backends, conversations."""
