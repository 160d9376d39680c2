"""What fleet a test asks for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fakedev.spec.errors import did_you_mean
from fakedev.spec.os_errors import plain_reason
from fakedev.spec.units import format_duration

#: One node of eight boards. Services have free ports in place of the addresses, and an HTTP address for the test.
DEFAULT: Final = """\
version: 1
fleet:
  seed: 1
  speed: 0
  pools:
    - {name: dgx, nodes: 1, node-name: "dgx-{}", device: h100-sxm5-80gb, devices-per-node: 8, identity: dcgm}
web: []
workloads: {listen: ["127.0.0.1:9400"]}
"""
#: What ``@pytest.mark.fakedev`` and the factory take.
_NAMES: Final = ("config", "identity", "set", "scenario", "replay")
#: Those that are lists of texts, each with an example.
_LISTS: Final = {"set": '["fleet.seed=7"]', "replay": '["jobs", "trace", "--usage", "60:20"]'}
#: Variables that would change a service of a test.
_DROPPED: Final = ("NOTIFY_SOCKET", "NODE_NAME")
#: The default folder of sockets. Fleets of tests make none, but a configuration with too long paths is refused.
_SOCKETS: Final = "/tmp"


@dataclass(frozen=True)
class Order:
    """A fleet that a test asks for.

    :param config: the path of a configuration; empty: that of the scenario, or DEFAULT.
    :param text: the text of a configuration, in place of a path; see :meth:`with_file`.
    :param identity: shown by all pools, in place of theirs.
    :param overrides: as ``--set`` takes them; they come last.
    :param scenario: the path of a scenario.
    :param replay: the arguments of ``fakedev replay``, with the path of the trace; see fakedev.testing.replay.
    """

    config: str = ""
    text: str = ""
    identity: str = ""
    overrides: tuple[str, ...] = ()
    scenario: str = ""
    replay: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, object], folders: Sequence[Path]) -> Order:
        """The order of keyword arguments.

        :param folders: where relative paths begin; the first in which the file exists.
        :raises ValueError: for arguments that are none.
        """
        for name, value in given.items():
            if name not in _NAMES:
                hint = did_you_mean(name, _NAMES, f"; there are {', '.join(_NAMES)}")
                raise ValueError(f"{name}: is nothing that a fleet takes{hint}")
            if name not in _LISTS and not isinstance(value, str | os.PathLike | None):
                raise ValueError(f"{name}: must be a text, not {value!r}")
        overrides, replay = (_texts(name, given.get(name) or (), example) for name, example in _LISTS.items())
        if replay and (given.get("config") or given.get("scenario")):
            raise ValueError("replay: a trace has its own configuration: leave out config and scenario")
        if len(replay) == 1:
            raise ValueError(f"replay: needs a format and a folder, as {_LISTS['replay']}")
        config, identity, scenario = (str(given.get(name) or "") for name in ("config", "identity", "scenario"))
        is_text = "\n" in config
        return cls(
            "" if is_text or not config else _found("config", config, folders),
            config if is_text else "" if config or scenario or replay else DEFAULT,
            identity,
            overrides,
            scenario and _found("scenario", scenario, folders),
            replay and (replay[0], _found("replay", replay[1], folders), *replay[2:]),
        )

    def with_file(self, folder: Path) -> Order:
        """The same with a file in place of the text."""
        if not self.text:
            return self
        path = folder / "fakedev.yaml"
        path.write_text(self.text, encoding="utf-8")
        return replace(self, config=str(path), text="")

    def overrides_of(self, pool_count: int) -> list[str]:
        """The values for a configuration of so many pools; 0: without the identity. The clock stands unless asked."""
        shown = [f"fleet.pools.{place}.identity={self.identity}" for place in range(pool_count)]
        return ["fleet.speed=0", *(shown if self.identity else []), *self.overrides]

    def __str__(self) -> str:
        """What was asked for, as lines: options, then the text of the configuration."""
        options = [f"--set {shlex.quote(override)}" for override in self.overrides]
        options += [f"identity {self.identity}"] if self.identity else []
        options += [f"scenario {self.scenario}"] if self.scenario else []
        options += [f"fakedev replay {shlex.join(self.replay)}"] if self.replay else []
        text = self.text
        if self.config:
            options.insert(0, f"# {self.config}")
            try:
                text = Path(self.config).read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                text = plain_reason(error)
        return "\n".join([*options, text.rstrip()])


def _texts(name: str, value: object, example: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"{name}: must be a list of texts, as {example}, not {value!r}")
    return tuple(map(str, value))


def _found(name: str, path: str, folders: Sequence[Path]) -> str:
    for folder in folders:
        if (folder / path).exists():
            return str((folder / path).absolute())
    raise ValueError(f"{name}: there is no {path} in {' or '.join(dict.fromkeys(map(str, folders)))}")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without variables that change a configuration or name another fakedev."""
    kept = {name: value for name, value in environ.items() if not name.startswith("FAKEDEV_") and name not in _DROPPED}
    return kept | {"RUNTIME_DIRECTORY": _SOCKETS}


def run_again(record: str, seconds: float) -> str:
    """The command that runs a record again, and prints the page of its end."""
    span = format_duration(seconds)
    return f"fakedev render --events {shlex.quote(record)} --for {span} --every {span if seconds else '1s'}"


def journal_lines(entries: Sequence[Mapping[str, object]]) -> str:
    """Entries of a journal as lines, the oldest first.

    :param entries: as the API gives them, the newest first.
    """
    rows = [(f"tick {each['tick']}", each["kind"], each["scope"], each["text"]) for each in reversed(entries)]
    return "\n".join("  ".join(str(word) for word in row if word) for row in rows)
