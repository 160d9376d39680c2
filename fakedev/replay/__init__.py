"""Replays traces of real clusters on simulated devices: reads their files, places jobs, compares the result.

Start with `trace.py` (a trace in one form) and `schedule.py` (its jobs as workloads). `folder.py` opens the files of
traces, `formats/` reads them, `placement.py` gives jobs their devices, and `compare.py` has the verdicts. Touches the
outside: `start.py` (environment).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("start",)
