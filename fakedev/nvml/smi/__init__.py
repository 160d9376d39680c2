"""The simulated command nvidia-smi: it reads the file that the NVML library reads; without NumPy and Twisted."""
