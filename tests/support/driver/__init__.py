"""NVML and nvidia-smi as tests read them."""
