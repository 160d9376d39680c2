"""Learns a fleet from its own metrics: what there is, which jobs come, how they use their boards.

Start with `learnt.py`, which goes from series to a configuration. `tracks.py` tells whose series are whose,
`seen_jobs.py` finds jobs in them, `cluster_fit.py` fits the kinds of jobs of a living cluster, and `likeness.py` puts
what was read beside what the result shows. `board_types.py` fits device types, `usage_fit.py` phases, levels and
memory of work, and `oddities.py` what goes wrong with boards and exporters. `pace.py` fits random processes to what
the simulation does not follow. `job_trace.py` writes the jobs for a replay. `range_history.py` reads a Prometheus
piece by piece, and `kept_answers.py` keeps its answers in a folder. Touches the outside: `kept_answers.py`, and
`learnt.py` (it clones the last page, which reads the environment).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("kept_answers", "learnt")
