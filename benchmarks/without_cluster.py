"""What the programs cost that have no cluster, compared with a version that knew of none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from urllib.request import urlopen

from fleets import dcgm, original
from programs import HERE, cpu_seconds_of, resident_bytes
from results import Section, Target

#: The last commit without Kubernetes.
_BEFORE = "5c34ac5"
_ROUNDS = 11
_LARGE_ROUNDS = 5
_RUN = "from fakedev.commands.services import {0}; raise SystemExit({0}())"
_FIGURES = ("ready", "processor time", "resident")
#: Seconds of one round; the processor time is that until the program is ready.
_SETTLE_SECONDS = 1.5


def without_cluster() -> Section:
    """Start-up time and memory of the service and of the exporter."""
    section = Section(
        "Kubernetes: what it costs without a cluster",
        f"""
Programs without `kubernetes:` in their configuration, of this version and of the commit {_BEFORE}, the last without
Kubernetes, alternating, with the same packages installed (pyOpenSSL among them). Medians of {_ROUNDS} starts
({_LARGE_ROUNDS} of the large fleet). *Ready* is the time until the program listens; *processor time* that which it has
used by then; *resident* its memory {_SETTLE_SECONDS} s later. The target applies to the ratio of the memory: where
others use the machine, too, the same program's processor time differs by 10% and more from run to run.
""",
        [*_FIGURES, *(f"{name}, before" for name in _FIGURES), "ratios"],
    )
    with _tree_before() as before:
        trees = {"now": HERE.parent, "before": before}
        for title, program, rounds in (
            ("`fakedev serve`, 8 GPUs", 8, _ROUNDS),
            ("`fakedev serve`, 8,000 GPUs", 8000, _LARGE_ROUNDS),
            ("`fakedev-exporter`", 0, _ROUNDS),
        ):
            found: dict[str, list[tuple[float, ...]]] = {name: [] for name in trees}
            for number in range(rounds):
                for name in sorted(trees, reverse=bool(number % 2)):
                    found[name].append(_measured(trees[name], program))
            now, then = ([median(each) for each in zip(*found[name], strict=True)] for name in ("now", "before"))
            ratios = [a / b for a, b in zip(now, then, strict=True)]
            section.add(
                title, *_texts(now), *_texts(then), ", ".join(f"{ratio:.3f}" for ratio in ratios),
                judged=ratios[2], target=Target(1.01),
            )  # fmt: skip
    return section


@contextmanager
def _tree_before() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as folder:
        tree = Path(folder, "before")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, _BEFORE], cwd=HERE.parent, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=HERE.parent, check=True)


def _measured(tree: Path, devices: int) -> tuple[float, float, float]:
    """Seconds until ready, processor seconds, and megabytes.

    :param devices: of the service; 0: the exporter.
    """
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name:
        folder = Path(name)
        ready = folder / "ready.json"
        if devices:
            config = folder / "config.yaml"
            config.write_text(dcgm(devices).replace("{folder}", name))
            command = ["fakedev", "serve", "--config", str(config), "--ready-file", str(ready)]
        else:
            original(8, folder)
            command = ["exporter", "-devtype", "type.json", "-identity", "identity.json", "-devlist", "devices.json",
                       "-count", "8", "-socket", str(folder / "socket"), "-address", "127.0.0.1:9988"]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        began = perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", _RUN.format(command[0]), *command[1:]],
            cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            while not (ready.exists() if devices else _answers("http://127.0.0.1:9988/metrics")):
                if process.poll() is not None:
                    raise RuntimeError(f"{command} of {tree} did not start")
                sleep(0.002)
            seconds, used = perf_counter() - began, cpu_seconds_of(process)
            sleep(_SETTLE_SECONDS)
            return seconds, used, resident_bytes(process) / 1e6
        finally:
            process.terminate()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urlopen(url) as answer:
            return bool(answer.read())
    except OSError:
        return False


def _texts(figures: list[float]) -> list[str]:
    return [f"{figures[0]:.2f} s", f"{figures[1]:.2f} s", f"{figures[2]:.1f} MB"]
