"""The process of a service: sockets, TLS, signals, logs, clock, threads, memory, and its HTTP client.

Start with `part.py` (the shape of a part of a program) and `application.py`, which runs and stops all parts.
`reactor.py` says what is used of a reactor; `early.py` listens before a program is loaded, `listening.py` and
`unix_sockets.py` open all other sockets, `clock.py` and `turns.py` share the reactor's time, `disk.py` writes and
watches files, `http_client.py` sends requests to an API server, `running_services.py` has the files by which commands
find a service, `systemd.py` notifies systemd. All modules touch the outside, except the declarations `settings.py` and
`tls_settings.py`.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    "announcement", "application", "client_tls", "clock", "disk", "early", "http_client", "listening", "logs",
    "memory", "part", "processes", "reactor", "running_services", "signals", "socket_files", "systemd", "threads",
    "tls", "tls_transport", "turns", "unix_sockets",
)
