"""How long a history takes: a day of one node into blocks, two hours of ten nodes, the score of a hundred rules."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from results import Section, Target
from took import Took, run_fakedev

_SCENARIO: Final = """
scenario: {{for: {span}, scrape: 15s, seed: 7}}
config:
  fleet:
    tick: 5s
    epoch: 1795219200
    pools: [{{name: dgx, nodes: {nodes}, device: h100, devices-per-node: 8, identity: dcgm}}]
timeline:
  - {{at: 0s, run: {{name: llm, devices: "*/[0-5]", profile: training, pod: llm-0}}}}
  - {{at: 30m, as: hot, every: 3h, fault: {{kind: fan, devices: any, duration: 12m}}}}
  - {{at: 1h, every: 4h, as: gone, fault: {{kind: lost, devices: any, duration: 10m}}}}
"""
_RULE: Final = """
      - alert: Rule{number}
        expr: DCGM_FI_DEV_GPU_TEMP{{gpu="{gpu}"}} > {celsius}
        for: 1m
        annotations: {{fakedev_expects: fan}}
"""
_RULES: Final = 100
#: An hour of a week is one of so many.
_HOURS_OF_A_WEEK: Final = 168


def histories() -> Section:
    """Histories and scores."""
    section = Section(
        "Histories and scores of scenarios",
        "`fakedev scenario run --blocks` with ticks of 5 s, scrapes of 15 s and the default counters. promtool makes "
        "blocks of two hours while the next are simulated. Memory is that of the largest process. The score is that of "
        f"{_RULES} rules with `for`: the shortest of three runs, less that of a run with one rule.",
        ("wall clock", "CPU", "memory"),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if shutil.which("promtool"):
            day = _blocks(folder, "24h", 1)
            _add(section, "8 boards, a day, into blocks", day, 60.0)
            hours = 6
            part = _blocks(folder, f"{hours}h", 10)
            _add(section, f"80 boards, {hours} hours, into blocks", part, 20 * 60.0 * hours / _HOURS_OF_A_WEEK)
        if shutil.which("prometheus"):
            one, many = (min(_score(folder, rules) for _ in range(3)) for rules in (1, _RULES))
            more = Took(many.seconds - one.seconds, None, many.megabytes)
            _add(section, f"{_RULES} rules over a day of 8 boards, beyond the {one.seconds:.1f} s of one", more, 30.0)
    return section


def _add(section: Section, name: str, took: Took, most_seconds: float) -> None:
    cpu = "-" if took.cpu_seconds is None else f"{took.cpu_seconds:.1f} s"
    figures = (f"{took.seconds:.1f} s", cpu, f"{took.megabytes:.0f} MB")
    section.add(name, *figures, judged=took.seconds, target=Target(round(most_seconds, 1), unit=" s"))


def _blocks(folder: Path, span: str, nodes: int) -> Took:
    path = _written(folder, span, nodes)
    data = folder / f"data-{nodes}"
    return run_fakedev("scenario", "run", str(path), "--blocks", str(data))


def _score(folder: Path, rules: int) -> Took:
    path = _written(folder, "24h", 1)
    file = folder / "rules.yml"
    items = "".join(_RULE.format(number=each, gpu=each % 8, celsius=70 + each % 25) for each in range(rules))
    file.write_text(f"groups:\n  - name: gpu\n    rules:{items}", encoding="utf-8")
    return run_fakedev("scenario", "score", str(path), "--rules", str(file))


def _written(folder: Path, span: str, nodes: int) -> Path:
    path = folder / f"scenario-{span}-{nodes}.yaml"
    path.write_text(_SCENARIO.format(span=span, nodes=nodes), encoding="utf-8")
    return path
