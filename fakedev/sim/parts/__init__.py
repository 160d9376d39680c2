"""Parts of devices that work can be on by themselves: instances of a partitioned GPU, tiles."""
