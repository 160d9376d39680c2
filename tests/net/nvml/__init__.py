"""The NVML library and its environment."""
