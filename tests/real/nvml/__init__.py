"""Programs that ask NVIDIA's driver."""
