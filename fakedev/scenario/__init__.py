"""Timelines of what happens to a fleet, their truth, and marks for the alert rules that watch."""
