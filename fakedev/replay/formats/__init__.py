"""The formats of traces: fakedev's own, Alibaba's, Microsoft's Philly, Slurm job logs and Acme's usage tables."""
