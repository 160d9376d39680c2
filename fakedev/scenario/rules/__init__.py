"""Alert rules and dashboards as their authors wrote them, and the real programs that evaluate them.

Start with `alert_rules.py` (what a rule asks) and `expected.py` (when it should fire). Touch the outside:
`prometheus.py` and `promtool.py` (programs), `trials.py` (a real Prometheus that tries each rule).
"""
