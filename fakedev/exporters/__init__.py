"""Pages of metrics as the vendors' exporters print them: identities, families, labels, numbers; and conformity.

Start with `identity.py` (a version of an exporter as data) and `page.py` (how a page is rendered). `conform.py`
compares a page with a captured one, `samples.py` parses one, and `workload_page.py` has the series of workloads. The
files of identities are read in `settings/`. `otlp_message.py` has
the boards as OpenTelemetry's metrics. Touch the outside: `cache.py`, `port.py`, `part.py` and `otlp_sender.py`
(reactor), `hpc_jobs.py` (disk).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("cache", "hpc_jobs", "otlp_sender", "part", "port")
