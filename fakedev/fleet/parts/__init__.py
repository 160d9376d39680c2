"""Parts of devices that workloads run on: MIG instances of a GPU, and tiles."""
