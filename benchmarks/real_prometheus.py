"""A large fleet that a real Prometheus scrapes, with a reload in the middle: its own numbers.

``python benchmarks/real_prometheus.py SECONDS`` prints the section after so many seconds of measurement.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import sleep, time
from typing import Any, NamedTuple
from urllib.parse import quote

from fleets import dcgm
from programs import Program, fakedev
from results import Section, Target, ms

SECONDS = 60
_NODES = 1250
_MORE_NODES = 1260
_INTERVAL = 15
#: Scrapes that begin within so many seconds of the reload are counted as scraped during it.
_RELOAD_SECONDS = 3.0
_CONFIGURATION = """
global: {{scrape_interval: {interval}s, scrape_timeout: 10s}}
scrape_configs:
  - job_name: gpus
    http_sd_configs: [{{url: "http://{address}/sd", refresh_interval: {interval}s}}]
  - job_name: fakedev
    metrics_path: /-/metrics
    static_configs: [{{targets: ["{address}"]}}]
"""


class _Scrape(NamedTuple):
    """When a scrape was, and how long it took: Unix time and seconds."""

    at: float
    seconds: float


class Prometheus:
    """A Prometheus of its own."""

    def __init__(self, program: str, folder: Path, scraped: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        (folder / "prometheus.yml").write_text(_CONFIGURATION.format(interval=_INTERVAL, address=scraped))
        self._process = subprocess.Popen(
            [
                program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={self._address}", "--log.level=error",
            ],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, query: str, at: float | None = None) -> list[dict[str, Any]]:
        """The result of an instant query."""
        moment = "" if at is None else f"&time={at:.3f}"
        with urllib.request.urlopen(f"http://{self._address}/api/v1/query?query={quote(query)}{moment}") as answer:
            found: list[dict[str, Any]] = json.loads(answer.read())["data"]["result"]
        return found

    def number(self, query: str, at: float | None = None) -> float:
        """The one number that a query has; 0 when it finds nothing."""
        return sum(float(each["value"][1]) for each in self.ask(query, at))

    def names(self, kind: str = "") -> list[str]:
        """The metrics of the nodes; only those of a type, when it is named."""
        with urllib.request.urlopen(f"http://{self._address}/api/v1/metadata") as answer:
            known: dict[str, list[dict[str, str]]] = json.loads(answer.read())["data"]
        ours = {name: told[0]["type"] for name, told in known.items() if name.startswith("DCGM_")}
        return sorted(name for name, its_kind in ours.items() if kind in ("", its_kind))

    def end(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


@contextmanager
def _prometheus(program: str, scraped: str) -> Iterator[Prometheus]:
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as folder:
        server = Prometheus(program, Path(folder), scraped)
        try:
            yield server
        finally:
            server.end()


def real_prometheus(seconds: int = SECONDS) -> Section:
    """Some minutes of a Prometheus over 10,000 GPUs."""
    section = Section(
        "10,000 GPUs scraped by a real Prometheus",
        f"""
{_NODES:,} nodes of 8 H100s with pod labels, shown as by dcgm-exporter, one tick a second. Prometheus discovers
them with /sd and scrapes all of them and /-/metrics every {_INTERVAL} s; both programs run on this machine. The
measurement starts after the first scrape of all nodes and takes {seconds} s. In the middle a reload changes
{_NODES:,} nodes to {_MORE_NODES:,}. The numbers are Prometheus' own answers, except for processor time, which is
the kernel's. *As Prometheus saw them* is `scrape_duration_seconds` of the nodes, including the time that
Prometheus waits for a core. *As fakedev counts them* is `fakedev_scrape_duration_seconds` of the nodes' pages,
from the request to the last byte, by its buckets.
""",
        ["answer"],
    )
    program = shutil.which("prometheus")
    if program is None:
        section.add("there is no Prometheus here", "")
        return section
    with (
        fakedev(dcgm(_NODES * 8).replace("identity: dcgm", "identity: dcgm@4.8.2")) as (server,),
        _prometheus(program, server.web) as prometheus,
    ):
        _until(lambda: prometheus.number('sum(up{job="gpus"})') == _NODES)
        began, used = time(), server.cpu_seconds()
        sleep(seconds / 2)
        reloaded = _reload(server)
        sleep(max(0.0, began + seconds - time()))
        ended = time()
        used = (server.cpu_seconds() - used) / (ended - began)
        _fill(section, prometheus, ended, f"{ended - began:.0f}s", reloaded)
    section.add("processor time of fakedev, share of one core", f"{used:.1%}", judged=used, target=Target(0.15))
    return section


def _fill(section: Section, prometheus: Prometheus, ended: float, window: str, reloaded: float) -> None:
    def count(query: str) -> float:
        return prometheus.number(f"count({query.replace('[]', f'[{window}]')})", ended)

    none = Target(0)
    section.add("targets at the end: `count(up)`", f"{count('up'):,.0f}")
    missed = count("min_over_time(up[]) == 0")
    section.add("targets that failed: `count(min_over_time(up[]) == 0)`", f"{missed:.0f}", judged=missed, target=none)
    names = prometheus.names()
    scrapes = 'on(instance) group_left() count_over_time(up{job="gpus"}[])'
    gaps = sum(count(f"count_over_time({name}[]) != {scrapes}") for name in names)
    series = sum(count(name) for name in names)
    section.add(
        f"series with a gap, of {series:,.0f}: more or fewer samples than their target's `up`", f"{gaps:.0f}",
        judged=gaps, target=none,
    )  # fmt: skip
    anew = sum(count(f"resets({name}[]) > 0") for name in prometheus.names("counter"))
    section.add("counters that were reset: `resets([]) > 0`", f"{anew:.0f}", judged=anew, target=none)
    samples = prometheus.number("sum(scrape_samples_scraped)", ended)
    section.add(f"samples in {_INTERVAL} s: `sum(scrape_samples_scraped)`", f"{samples:,.0f}")
    found = prometheus.ask(f'scrape_duration_seconds{{job="gpus"}}[{window}]', ended)
    all_of_them = [_Scrape(float(at), float(taken)) for each in found for at, taken in each["values"]]
    during, others = [], []
    for each in all_of_them:
        (during if abs(each.at - reloaded) < _RELOAD_SECONDS else others).append(each)
    section.add(f"{len(all_of_them):,} scrapes as Prometheus saw them, p50 and p99", _both(all_of_them))
    longest, held = (max(each.seconds for each in some) for some in (others, during))
    section.add("the longest", ms(longest))
    section.add(
        f"the longest of {len(during):,} around the reload", ms(held),
        judged=(held - longest) * 1000, target=Target(100, unit=" ms more"),
    )  # fmt: skip
    buckets = f'sum by (le) (increase(fakedev_scrape_duration_seconds_bucket{{page="/nodes/NODE/metrics"}}[{window}]))'
    for share, limit in ((0.5, 1.0), (0.99, 10.0)):
        taken = prometheus.number(f"histogram_quantile({share}, {buckets})", ended)
        section.add(
            f"scrapes as fakedev counts them, p{share * 100:.0f}", ms(taken),
            judged=taken * 1000, target=Target(limit, unit=" ms"),
        )  # fmt: skip
    resident = prometheus.number(f"max_over_time(process_resident_memory_bytes{{job=\"fakedev\"}}[{window}])", ended)
    each = resident / (_NODES * 8) / 1000
    section.add(
        "resident memory, for each GPU, the rest of the program among it", f"{resident / 1e6:.0f} MB, {each:.1f} kB",
        judged=each, target=Target(30, unit=" kB"),
    )  # fmt: skip
    lost = prometheus.number("fakedev_ticks_missed_total", ended)
    section.add("`fakedev_ticks_missed_total`", f"{lost:.0f}", judged=lost, target=none)


def _both(scrapes: Sequence[_Scrape]) -> str:
    seconds = sorted(scrape.seconds for scrape in scrapes)
    return f"{ms(seconds[len(seconds) // 2])}, {ms(seconds[len(seconds) * 99 // 100])}"


def _reload(server: Program) -> float:
    """Give the fleet more nodes; when that was asked for."""
    config = server.folder / "config.yaml"
    config.write_text(config.read_text().replace(f"nodes: {_NODES}", f"nodes: {_MORE_NODES}"))
    asked = time()
    server.post("/-/reload")
    return asked


def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        try:
            if is_so():
                return
        except OSError:
            pass
        sleep(0.2)
    raise RuntimeError("Prometheus did not scrape all nodes")


if __name__ == "__main__":
    print(real_prometheus(int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS).markdown())
