"""How much load one fakedev-client puts on a queue."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from programs import HERE, Program
from results import Section, ms

_CLIENT = "from fakedev.commands.dropins.client import main; raise SystemExit(main())"
_ROUNDS = 3
_SECONDS = 2.0
#: The best of the original's client, with its own frontend and backends.
_GO = 690


def tester() -> Section:
    """Requests a second, in both protocols."""
    section = Section(
        "Load of one fakedev-client",
        f"""
One `fakedev-client` and a frontend that answers each request immediately, in separate processes. The frontend is
written in Python too, and costs about as much as the client. Bare JSON uses one connection per request. Times are
those that the client reports for its requests: from the intended start to the answer. Medians of {_ROUNDS} runs
of {_SECONDS:g} s. The original's client does 380 to {_GO} requests/s with its own frontend and backends, which do
more work.
""",
        ["requests/s", "p50", "p99", "to Go"],
    )
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name:
        folder = Path(name)
        frontend = Program([str(HERE / "instant_frontend.py"), str(folder / "ready.json")], folder)
        try:
            for protocol, parallel in (("bare", 1), ("bare", 64), ("json", 1), ("json", 64)):
                rounds = [_run(frontend, folder, protocol, parallel) for _ in range(_ROUNDS)]
                rate = median(each["rate"] for each in rounds)
                p50, p99 = (median(each["times"]["total"][point] for each in rounds) for point in ("p50", "p99"))
                words = "bare JSON" if protocol == "bare" else "JSON lines"
                section.add(f"{words}, {parallel} parallel", f"{rate:,.0f}", ms(p50), ms(p99), f"{rate / _GO:.1f}x")
        finally:
            frontend.end()
    return section


def _run(frontend: Program, folder: Path, protocol: str, parallel: int) -> dict[str, Any]:
    report = folder / "report.json"
    options = ["-faddr", frontend.web, "-headless", "-protocol", protocol, "-req-now", str(parallel)]
    subprocess.run(
        [sys.executable, "-c", _CLIENT, *options, "-duration", str(_SECONDS), "-report", str(report)],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=HERE.parent,
    )  # fmt: skip
    statistics: dict[str, Any] = json.loads(report.read_text())["statistics"]
    if statistics["failures"]["total"]:
        raise RuntimeError(f"requests failed: {statistics['errors']}")
    return statistics
