"""For tests of the web tree: two pools, shown at five addresses."""

from __future__ import annotations

from tests.support.application import GREEN_AND_BLUE

TREE = GREEN_AND_BLUE + """\
web:
  - "127.0.0.1:9400"
  - {listen: "127.0.0.1:9401", serve: metrics}
  - {listen: "127.0.0.1:9402", pool: blue}
  - {listen: "127.0.0.1:9403", identity: dcgm}
  - {listen: "127.0.0.1:9404", token: open-sesame, hosts: [gpus.example.org]}
workloads: {listen: ["127.0.0.1:9500"]}
"""
FULL, METRICS, BLUE, AS_DCGM, WITH_TOKEN = range(5)
HEALTH = ("/health", "/healthz", "/livez", "/readyz", "/-/healthy", "/-/ready")
