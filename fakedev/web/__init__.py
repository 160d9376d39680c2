"""The HTTP server of all addresses: its paths, guard, limits, requests, responses, probes and own metrics.

Start with `paths.py` (every web path) and `resource.py` (the base of every resource). `site.py`, `channel.py` and
`request.py` have our classes of twisted.web's Site, HTTPChannel and Request, `heads.py` checks heads of requests before
they are parsed, `guard.py` decides who may read and change, and `http_limits.py` has the limits. Without Twisted:
`paths.py`, `settings.py`, `heads.py` and `http_limits.py`; all others touch the outside (reactor, sockets).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    "channel", "drop_in", "encoding", "guard", "items", "metrics", "probes", "query",
    "request", "resource", "response", "sending", "site", "sliced_answers", "web_configs",
)
