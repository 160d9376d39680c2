"""The simulated commands nvidia-smi and dcgmi: they read the file of the NVML library; without NumPy and Twisted."""
