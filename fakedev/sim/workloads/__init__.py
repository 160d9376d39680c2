"""Workloads: from their arrival to their end, and what they ask of devices."""
