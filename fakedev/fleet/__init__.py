"""The simulated machines: nodes, devices, workloads, faults, ticks, and the record of what happened.

Start with `fleet.py`: one state, one tick at a time. `door.py` checks every change, `events.py` has the changes,
`record.py` replays them, `explanation.py` says why a device shows a value, and `past.py` has what is over. Rules are in
`workloads/`, `boards/`, `devices/`, `faults/`, `links/`, `parts/`, `cluster/` and `racks/`; what the configuration
says is in `spec/` and `settings/`. Touch the outside: `ticker.py` (clock), `hub.py`, `port.py` and `part.py` (reactor,
sockets), `journal_files.py` and `state_folder.py` (disk).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("describe", "hub", "journal_files", "metrics", "part", "port", "state_folder", "ticker")
