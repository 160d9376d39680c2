"""Parts of devices that workloads run on: instances of a partitioned GPU, and tiles."""
