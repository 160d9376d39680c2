"""The line server and the client for line protocols."""
