"""The engine of the configuration: declares sections, keys and options, and reads YAML, JSON and command lines.

Start with `sections.py` (sections and keys), `declare.py` (fields of requests, settings of frozen values) and
`types.py` (durations, sizes, lists). `reader.py` makes nodes from a file, `places.py` has nodes with file and line and
reports problems, `addresses.py` and `peer_addresses.py` read addresses. `files.py` is the one door to the disk; a
record can hold what it has read. Touch the outside: `options.py` and `go_flags.py` (command line, output).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("go_flags", "options")
