"""What a service shows and takes over HTTP: the JSON API under /api/v1, OpenAPI, the live view and the web page.

Start with `tree.py`, the resource at each path of each address. `devices.py`, `nodes.py`, `racks.py`, `workloads.py`,
`queues.py` and `tester.py` are the API of their subjects; `control.py` has the clock, resets, journal and scenario.
`why.py` says why something is as it is, `metric_queries.py` explains a PromQL expression, `rule_times.py` when a rule
fired; `own_pages.py` has the series of fakedev itself, `exporters.py` who shows what. `openapi.py` describes the API.
Touch the outside: `live.py` and `control.py` (reactor); the resources of all modules need Twisted.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    "control", "devices", "exporters", "live", "nodes", "openapi", "own_pages", "queues",
    "racks", "static", "tester", "tree", "why", "workloads",
)
