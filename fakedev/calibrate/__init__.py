"""Calibration: from a recorded run of a real board to the coefficients of its device type.

Start with `runs.py` (the recorded samples), then `model.py` and `fit.py`. `report.py` has the result. Touches the
outside: `range_query.py` (queries of a Prometheus, by the clock).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("range_query",)
