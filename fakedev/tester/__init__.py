"""The scalability tester: puts load on a queue, measures throughput and latency, checks expectations, reports.

Start with `plan.py` (the load) and `statistics.py` (what is measured). `pacing.py` decides which requests start now,
`expectation.py` and `report.py` give the result, and `scaling.py` fits a scale test. Touch the outside: `driver.py`,
`load_run.py`, `requests.py` and `scale_test.py` (reactor, sockets); `part.py` puts the tester together.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("driver", "load_run", "pages", "part", "requests", "scale_test")
