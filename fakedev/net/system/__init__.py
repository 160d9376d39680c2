"""The operating system: addresses, sockets, signals, logs, processes, memory, threads."""
