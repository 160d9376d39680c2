"""The NVML library in C, how it is built, and how programs find it; without NumPy and Twisted."""
