"""What fleet a test asks for: configuration, scenario or trace, read in the test's process; NVML for its programs.

``fakedev replay`` makes a scenario of a trace, which the fleet plays. Programs of a test that ask NVIDIA's driver get
the environment in which they see the boards of the fleet.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Final

from fakedev.base.errors import did_you_mean, plain_reason
from fakedev.base.units import format_duration
from fakedev.client import FleetError
from fakedev.commands.replay import replay
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.start import record_head
from fakedev.fleet.spec.limits import RecordHead
from fakedev.nvml.records import FILE_NAME
from fakedev.scenario.settings import LoadedScenario, load_scenario
from fakedev.schema.files import Files

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

    :param config: the path of a configuration; empty: the scenario's, or DEFAULT.
    :param text: the text of a configuration, in place of a path; see :meth:`with_file`.
    :param identity: shown by all pools, in place of theirs.
    :param overrides: as ``--set`` takes them; they come last.
    :param scenario: the path of a scenario.
    :param replay: the arguments of ``fakedev replay``, with the path of the trace; see fakedev.testing.order.
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
        """The values for a configuration of some pools; 0: without the identity. The clock stands by default."""
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
    rows = [(f"tick {entry['tick']}", entry["kind"], entry["scope"], entry["text"]) for entry in reversed(entries)]
    return "\n".join("  ".join(str(word) for word in row if word) for row in rows)


@dataclass(frozen=True)
class Reading:
    """A configuration that was read, with the head of a record, and the scenario that it is of."""

    configuration: Configuration
    head: RecordHead
    scenario: LoadedScenario | None = None


def read_order(order: Order) -> Reading:
    """The configuration of an order, without the variables that would change it.

    :raises ConfigurationError: with every problem.
    """
    reading = _read(order, order.overrides_of(0))
    return _read(order, order.overrides_of(len(reading.configuration.fleet.pools))) if order.identity else reading


def _read(order: Order, overrides: Sequence[str]) -> Reading:
    environ, config, text = clean_environment(os.environ), order.config or None, order.text or None
    if order.scenario:
        scenario = load_scenario(order.scenario, environ, config, overrides)
        configuration, files, config, overrides = scenario.configurations[0]
        return Reading(
            configuration, record_head(configuration, files, config=config, overrides=overrides), scenario
        )
    files = Files(environ=environ)
    configuration = load(config, files, overrides, text=text)
    return Reading(configuration, record_head(configuration, files, config=config, text=text, overrides=overrides))


def with_scenario(order: Order, folder: Path) -> Order:
    """An order with a scenario in place of its replay.

    :param folder: for the scenario.
    :raises ValueError: with the words of ``fakedev replay``, when it cannot be replayed.
    :raises ConfigurationError: when a fleet cannot have its nodes.
    """
    path, said = folder / "replay.yaml", StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(said):
        try:
            code = replay([*order.replay, "--output", str(path)])
        except SystemExit as ended:
            code = 2 if ended.code else 0
    if code:
        raise ValueError(f"replay: {said.getvalue().strip().removeprefix('fakedev replay: ')}")
    if not path.exists():
        raise ValueError("replay: leave out options that show something else than a fleet, as --check and --help")
    return replace(order, scenario=str(path))


class NoBoards(FleetError):
    """Programs cannot see the boards of a fleet; the text says why."""


class ShowsBoards:
    """A fleet whose service may write a file for NVML.

    :ivar folder: of the files of the service.
    """

    folder: Path

    def nvml_env(self, node: str = "", with_library: bool = True) -> dict[str, str]:
        """The environment of this process with what ``fakedev nvml env`` prints, for programs of a test.

        :param node: that they see; empty: the only one.
        :param with_library: False: only the command nvidia-smi sees boards; no C compiler is needed.
        :raises NoBoards: when the configuration has no ``nvml``, there is no such node, or no C compiler.
        """
        from fakedev.nvml.library import CannotBuild, built_command, built_library  # noqa: PLC0415
        from fakedev.nvml.shell_environment import Unreadable, node_remark, nodes_of, variables  # noqa: PLC0415

        file = nvml_file(self.folder)
        try:
            remark = node_remark(nodes_of(str(file)), node, "nvml_env(NODE)")
            library = built_library() if with_library else None
        except Unreadable as reason:
            raise NoBoards(f"{reason}; for a test, set=[\"nvml={{}}\"]") from None
        except CannotBuild as reason:
            raise NoBoards(f"{reason}; nvidia-smi alone needs none: with_library=False") from None
        if remark:
            raise NoBoards(remark)
        return dict(os.environ) | variables(library, str(file), node, os.environ, built_command().parent)


def nvml_file(folder: Path) -> Path:
    """The file for NVML of a service of a test, if its configuration has one."""
    return folder / FILE_NAME
