"""Clones a real fleet from its pages: writes the configuration of a fleet that looks like it.

Start with `cloning.py`, which goes from pages to a configuration. `fleet_reader.py` reads the fleet,
`identity_changes.py` its exporter's differences, `closeness.py` compares. Touch the outside: `cloning.py`
(environment), `prometheus_pages.py` (the clock) and `prometheus_server.py` (requests to a Prometheus).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("cloning", "identity_scores", "prometheus_pages", "prometheus_server")
