"""Scenarios: timelines of faults and workloads, the truth of a run, its samples, and scores of alert rules.

Start with `entries.py` (what a timeline says) and `run.py` (a run in virtual time). `truth.py` has what really
happened, `alert_rules.py` the rules, and `score.py` the score. Touch the outside: `live.py` (a running service),
`history.py` (disk), `sender.py` and `evaluation.py` (reactor, sockets), `prometheus.py`, `promtool.py` and
`trials.py`.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("evaluation", "history", "live", "prometheus", "promtool", "score_start", "sender", "start", "trials")
