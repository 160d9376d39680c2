"""Real frontends, backends and clients of work queues."""
