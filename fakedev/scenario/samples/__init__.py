"""The samples of a run, for a Prometheus: as scrapes, OpenMetrics, blocks and remote write.

Start with `series.py`. Touch the outside: `history.py` (disk) and `sender.py` (reactor, sockets).
"""
