"""Scenarios: timelines of faults and workloads, the truth of a run, its samples, and scores of alert rules.

Start with `entries.py` (what a timeline says) and `run.py` (a run in virtual time). `truth.py` has what really
happened; `samples/` what a Prometheus saw of it, `rules/` the alert rules, `scores/` how well they found the truth.
Touch the outside: `live.py` (a running service) and `start.py`.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    *("live", "start", "rules/prometheus", "rules/promtool", "rules/trials"),
    *("samples/history", "samples/sender", "scores/evaluation", "scores/score_start"),
)
