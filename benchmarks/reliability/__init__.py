"""Figures of reliability: each program does something bad to a service, and says what it took."""
