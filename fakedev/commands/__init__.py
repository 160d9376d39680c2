"""The ``fakedev`` command: a module for each group of subcommands, and the other programs in folders.

Start with `main.py`, the table of subcommands; a module has the name of its subject, e.g. `render.py`, `conform.py`
or `replay.py`. `reach.py` finds a running service, `control.py` has the verbs for it, `status.py` and `top.py` show
what it does. `services.py` has the entry points of programs that handle signals first. All modules touch the
outside (command line, output).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    "alert_rules", "calibrate", "catalogs", "check", "clone", "completion", "conform", "control", "diff",
    "dropins/backend", "dropins/client", "dropins/container", "dropins/dcgm_exporter", "dropins/exporter",
    "dropins/frontend", "fault_showing", "kube", "learn", "main", "nvml", "prometheus", "prometheus_access", "queues",
    "reach", "render", "replay", "scale_test", "scenario/blocks", "scenario/from_record", "scenario/run",
    "scenario/score", "services", "status", "top", "upgrade", "why", "workload/exchange", "workload/main",
    "workload/options",
)
