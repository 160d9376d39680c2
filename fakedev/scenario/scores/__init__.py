"""How well alert rules found the truth of a run, and what an upgrade of an exporter does to them.

Start with `score.py`; `coverage.py` says which faults no rule finds, `upgrade.py` compares two releases. Touch the
outside: `evaluation.py` and `score_start.py` (reactor, a real Prometheus).
"""
