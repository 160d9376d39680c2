"""The work queues: ports, hub, figures, metrics."""
