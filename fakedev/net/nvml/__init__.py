"""The file that the NVML library reads: written once a tick."""
