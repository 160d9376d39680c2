"""The work queue: queues, jobs, workers, the ports of clients and backends, durable logs, and the backend.

Start with `broker.py`, the rules of which worker gets which job when; `job.py`, `queue.py`, `ledger.py` and
`job_ends.py` (retries, losses) are its parts. `settings.py` has the configuration, and `log.py` the records of durable
queues. Touch the outside: `client_port.py`, `backend_port.py` and `port.py` (reactor), `log_file.py` (disk),
`figures.py`, `frontend_client.py`, `process_runs.py` (processes), `backend.py`, `backend_wire.py` and `part.py`.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    "backend", "backend_port", "backend_start", "backend_wire", "client_port", "figures", "frontend_client", "log_file",
    "metrics", "part", "port", "process_runs",
)
