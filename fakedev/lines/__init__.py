"""Line ports: requests in words, JSON lines and bare JSON, for the workload, queue and node ports.

Start with `grammar.py` (verbs and arguments) and `framing.py` (where a message ends). `words.py`, `json_lines.py` and
`bare_fields.py` read the formats. Touch the outside: `protocol.py` is the base class of each port's protocol, with
`dialects.py` (how the peer speaks) and `outbox.py` (what it has not read); `server.py` has the factory and TLS,
`port_limits.py` and `tokens.py` the limits of peers, `peers.py` reads who a peer is.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("dialects", "outbox", "peers", "port_limits", "protocol", "server", "tokens")
