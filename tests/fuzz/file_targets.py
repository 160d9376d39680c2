"""Targets that read files: configurations, identities, counters, device types, originals, curves, records."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from fakedev.base.errors import Refused
from fakedev.config.load import load
from fakedev.fleet.events import Stamped
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.record import Replay, event_line, head_line, read_record
from fakedev.fleet.spec.limits import RecordHead
from fakedev.schema.files import MAX_BYTES, Files, Unreadable
from fakedev.schema.places import ConfigurationError
from tests.fuzz import seeds
from tests.fuzz.engine import Target
from tests.fuzz.grammar_inputs import configuration
from tests.support.application import application
from tests.support.paths import ROOT

#: More than Python's reader of CSV takes in a field.
_MOST: Final = 200_000
_FOLDER: Final = "/conf"
#: More devices than a fleet of these targets is built with: they would take long, not do something else.
_MAX_DEVICES: Final = 40


class TextFiles(Files):
    """Files in memory, besides the examples of the project."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        super().__init__(environ={"NAME": "x", "X": "7"})
        self._given = {os.path.join(_FOLDER, name): data for name, data in texts.items()}

    def read(self, path: str) -> str:
        """A text; anything else does not exist."""
        data = self._given.get(path)
        if data is None and path.startswith(str(ROOT / "etc")):
            return super().read(path)
        if data is None or len(data) > MAX_BYTES:
            raise Unreadable("no such file")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Unreadable("is not UTF-8 text") from None
        self.texts[path] = text
        return text


class ReadFile:
    """A file that a configuration names, or the configuration itself.

    :param name: of the file.
    :param others: the configuration that names it, and what that needs.
    """

    def __init__(self, name: str, others: Mapping[str, str]) -> None:
        self._name = name
        self._others = {other: text.encode() for other, text in others.items()}

    def run(self, data: bytes) -> str:
        """Load; what loads makes a fleet that does a tick."""
        try:
            configuration = load(os.path.join(_FOLDER, "f.yaml"), TextFiles({**self._others, self._name: data}))
        except ConfigurationError as error:
            lines = str(error).split("\n")
            assert len(lines) == len(error.problems)
            assert all(line.startswith(_FOLDER) or ":" in line for line in lines), lines
            assert max(map(len, lines)) < 1500, max(lines, key=len)
            return "|".join(problem.text for problem in error.problems[:20])
        fleet = configuration.fleet
        if sum(len(pool.nodes) * pool.devices_per_node for pool in fleet.pools) <= _MAX_DEVICES:
            Fleet(replace(fleet, epoch_seconds=1.8e9)).advance()
        return " ".join(configuration.notes[:20])

    def stop(self) -> None:
        """Nothing is left."""


def _pool(**keys: str) -> str:
    entries = {"name": "p", "nodes": "[a]", "device": "h100", "devices-per-node": "2", "identity": "dcgm", **keys}
    flow = ", ".join(f"{key}: {value}" for key, value in entries.items())
    return f"version: 1\nfleet: {{pools: [{{{flow}}}]}}\nweb: []\nworkloads: {{listen: []}}\n"


def _intel(**keys: str) -> str:
    return _pool(**{"device": "dg1", "identity": "xpumanager", **keys})


_SMALL: Final = _pool()


@cache
def _record() -> bytes:
    """The record of a run with some events."""
    lines = (
        "run x devices=all profile=80:5:10 detach", "fault xid devices=a/1 code=79 duration=1m", "advance 2s", "stop x",
    )  # fmt: skip
    with application(_SMALL.replace("fleet: {", "fleet: {speed: 0, ").replace(
        "listen: []", 'listen: [{listen: "127.0.0.1:9500", allow: [workloads, faults, clock]}]'
    )) as app:  # fmt: skip
        stamped: list[Stamped] = []
        apply = app.fleet.apply
        app.fleet.apply = lambda *given: stamped.append(apply(*given)) or stamped[-1]  # type: ignore
        peer = app.connect()
        for line in lines:
            peer.say(line)
            app.tick()
    fields = {"config": None, "text": _SMALL, "files": {}, "environment": {}, "overrides": []}
    head = RecordHead.of({"version": "0.1.0", "epoch": 1.8e9, **fields})
    return head_line(head) + b"".join(event_line(each) for each in stamped)


class Records:
    """``fakedev render --events``."""

    def run(self, data: bytes) -> str:
        """Read the record, and replay some ticks on a small fleet."""
        try:
            head, events = read_record(data)
            fleet = Fleet(replace(load(None, Files(environ={}), text=_SMALL).fleet, epoch_seconds=head.epoch_seconds))
            replay = Replay(events)
            for _ in range(5):
                replay.advance(fleet)
        except Refused as error:
            assert len(error.text) < 1500
            return error.text
        return f"{len(events)} events"

    def stop(self) -> None:
        """Nothing is left."""


def _file(name: str, file: str, good: Callable[[], tuple[bytes, ...]], **others: str) -> Target:
    texts = {f"{other}.yaml": text for other, text in others.items()}
    return Target(name, lambda: ReadFile(file, texts), good, lambda: seeds.words_of(good()), 200, _MOST)


def _texts(*texts: str) -> Callable[[], tuple[bytes, ...]]:
    return lambda: tuple(text.encode() for text in texts)


def _base(entry: str) -> str:
    return _SMALL.replace("listen: []", f"listen: [], base: [{{name: x, devices: all, {entry}}}]")


_TOPOLOGIES: Final = _texts(
    "migStrategy: mixed\nnodePools:\n  a: {gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441, numa: {zones: 2}}\n",
    "nodes:\n  a:\n    gpu-product: Tesla-T4\n    gpus:\n"
    "    - id: GPU-1\n      metrics: {metadata: {pod: p}, utilization: 7, fb-used: 5}\n",
    "kind: ConfigMap\nmetadata: {name: topology-a}\ndata:\n  topology.yml: |\n"
    "    gpuProduct: Tesla-T4\n    gpus: [{id: x}]\n",
    "nodePools: {a: {gpu: {profile: h100, overrides: {device_count: 2}}, resources: [{x/y: 1}], nodes: [b]}}\n",
)
_NODES: Final = _texts(
    "name,count,label:rack\na,2,r1\nb,1,r2\n", "name,device,inlet\nx-1,a100,24.5\n", 'name,labels\na,"rack=1,row=2"\n'
)
_SERIES: Final = _texts("time,value\n100,10\n130,40.5\n", "note, value ,time\n,7,5s\n", "time,value\n0,1\n1m,4\n2m,0\n")
_COUNTERS: Final = _texts(
    "# Format\ndcgm_gpu_temp,    gauge, GPU temperature (in C).\nDCGM_FI_DEV_SERIAL, label, Serial\n  # indented\n"
    'DCGM_FI_DEV_POWER_USAGE,gauge,"Power draw (in W), averaged."\nDCGM_FI_PROF_NVLINK_TX_BYTES, counter, Sent\n'
)
_COUNTED: Final = "name: mine\nbased-on: dcgm@4.8.2\ncounters: x.csv\n"
_CURVE: Final = _SMALL + "tester: {plans: [{queue: x, rate: 'csv:x.csv'}]}\n"


def _words_of_records() -> tuple[bytes, ...]:
    return (*seeds.words_of([_record()]), *seeds.line_words())


TARGETS: Final = (
    replace(_file("configurations", "f.yaml", seeds.configurations), fresh=configuration),
    _file("identities", "i.yaml", lambda: seeds.catalog("identities"), f=_pool(identity="./i.yaml")),
    _file("device types", "d.yaml", lambda: seeds.catalog("devices"), f=_pool(device="./d.yaml")),
    _file("counters", "x.csv", _COUNTERS, f=_pool(identity="./i.yaml"), i=_COUNTED),
    _file("topologies", "t.yml", _TOPOLOGIES, f="topology: t.yml\nweb: []\nworkloads: {listen: []}\n"),
    _file("node lists", "x.csv", _NODES, f=_pool(nodes="./x.csv")),
    _file("series", "x.csv", _SERIES, f=_base("profile: {csv: x.csv, join: linear}, metrics: {memory: {csv: x.csv}}")),
    _file("rate curves", "x.csv", _texts("seconds,rate\n0,1\n10,20\n", "seconds\n0\n1.5\n"), f=_CURVE),
    _file("original identities", "i.json", lambda: seeds.originals("identity"), f=_intel(identity="./i.json")),
    _file("original devices", "d.json", lambda: seeds.originals("device"), f=_intel(device="./d.json")),
    _file("original device lists", "l.json", lambda: seeds.originals("devices"), f=_intel(devices="./l.json")),
    _file("original workloads", "w.json", lambda: seeds.originals("workload"), f=_base("file: ./w.json")),
    Target("records", Records, lambda: [_record()], _words_of_records, 200, _MOST),
)
