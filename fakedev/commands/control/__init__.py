"""The commands that speak to a running service. They import neither Twisted nor NumPy, so they start at once."""
