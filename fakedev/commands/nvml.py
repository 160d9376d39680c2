"""``fakedev nvml``: the library by which nvitop, nvtop and other programs see simulated boards."""

from __future__ import annotations

import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from fakedev.base import environment
from fakedev.base.console import write_text
from fakedev.nvml.library import (
    DRIVERS,
    USUAL_DRIVER,
    CannotBuild,
    built_amdsmi,
    built_command,
    built_library,
    compile_library,
)
from fakedev.nvml.nvml_mock import LOOK_SECONDS, OverrideWriter
from fakedev.nvml.shell_environment import (
    Unreadable,
    default_file,
    export_lines,
    node_remark,
    nodes_of,
    unanswered_calls,
)
from fakedev.schema.options import Failed, Operand, Option, command, run_subcommand

_PROGRAM: Final = "fakedev nvml"
_FAILURES: Final[Mapping[type[Exception], int]] = {CannotBuild: 1}
#: The same as in ``fakedev scenario``.
SUBCOMMANDS: Final = {
    "build": ("fakedev.commands.nvml:build", "compile the library, write the commands nvidia-smi and dcgmi"),
    "overrides": ("fakedev.commands.nvml:follow", "write the overrides of NVIDIA's nvml-mock with each tick"),
    "unanswered": ("fakedev.commands.nvml:unanswered", "list calls of programs that the library could not answer"),
    "env": ("fakedev.commands.nvml:environment_lines", "print lines that make the programs of a shell use it"),
}


nvml: Final = partial(run_subcommand, _PROGRAM, SUBCOMMANDS)


def _source(what: str) -> tuple[Option, ...]:
    """Where the boards come from."""
    return (
        Option("file", "FILE", "the file of the service (nvml.file of its configuration)"),
        Option("node", "NODE", f"the node that {what}; default: the only one of the file"),
    )


_DRIVER: Final = Option(
    "driver", "", f"the branch of the driver whose functions programs find; default: {USUAL_DRIVER}",
    choices=tuple(map(str, DRIVERS)), default=str(USUAL_DRIVER),
)  # fmt: skip


@command(
    "fakedev nvml build",
    "Compiles the library, writes the commands nvidia-smi and dcgmi, and prints the paths of library and nvidia-smi.",
    Option("output", "FILE", "write only the library, to this file; default: all, to the user's cache"),
    _DRIVER,
    failures=_FAILURES, shown=_PROGRAM,
)  # fmt: skip
def build(options: Namespace) -> None:
    """Compile the library and write the command."""
    if options.output is None:
        write_text(sys.stdout, f"{built_library(int(options.driver))}\n")
        write_text(sys.stdout, f"{built_command()}\n")
    else:
        compile_library(Path(options.output).absolute(), driver=int(options.driver))
        write_text(sys.stdout, f"{options.output}\n")


@command(
    "fakedev nvml env",
    'Prints lines for eval "$(fakedev nvml env)" in a shell; compiles the library if need be.',
    *_source("programs see"),
    _DRIVER,
    failures=_FAILURES, shown=_PROGRAM,
)  # fmt: skip
def environment_lines(options: Namespace) -> int:
    """Print the environment; the exit code: 1 without the library, which nvidia-smi does not need."""
    path = options.file or default_file(os.environ)
    node = options.node or os.environ.get(environment.NODE, "")
    nodes: dict[str, int] = {}
    try:
        nodes = nodes_of(path)
        remark = node_remark(nodes, node, f"--node, or set {environment.NODE}")
    except Unreadable as reason:
        remark = f"{reason}; until then programs find no driver"
    command = built_command()
    try:
        library, problem = built_library(int(options.driver)), ""
    except CannotBuild as reason:
        library, problem = None, f"nvidia-smi works, other programs do not see the boards: {reason}"
    amdsmi = built_amdsmi() if any(nodes.values()) else None
    for line in export_lines(library, path, node, os.environ, command.parent, amdsmi):
        write_text(sys.stdout, f"{line}\n")
    for text in filter(None, (problem, remark)):
        _say(text)
    return 1 if problem else 0


@command(
    "fakedev nvml unanswered",
    "Lists functions of NVML that programs called and that are not simulated (3: not supported), with the programs.",
    Option("file", "FILE", "the file of the service (nvml.file of its configuration)"),
    shown=_PROGRAM,
)
def unanswered(options: Namespace) -> None:
    """Print what the library noted."""
    file = options.file or default_file(os.environ)
    notes = unanswered_calls(file)
    if not notes and not Path(file).exists():
        raise Failed(f"there is no {file}: name nvml.file of the service with --file")
    for call, programs in notes.items():
        write_text(sys.stdout, f"{call}  {', '.join(programs)}\n")
    if not notes:
        _say("no program has called a function that is not simulated")


@command(
    "fakedev nvml overrides",
    "Writes overrides.yaml of NVIDIA's nvml-mock with each tick, so that its boards follow a node. At the end, and "
    "without the service, the file is removed.",
    Operand("folder", "DIR", "the folder with nvml-mock's config.yaml, e.g. driver/config"),
    *_source("it follows"),
    shown=_PROGRAM,
)
def follow(options: Namespace) -> None:
    """Write the overrides of nvml-mock until SIGTERM or SIGINT."""
    given = {environment.NVML_FILE: options.file, environment.NODE: options.node}
    environ = {**os.environ, **{name: value for name, value in given.items() if value}}
    is_over = threading.Event()
    before = {number: signal.signal(number, lambda *_: is_over.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        writer = OverrideWriter(Path(options.folder), environ, _say)
        while not is_over.is_set():
            writer.look()
            is_over.wait(LOOK_SECONDS)
        writer.remove()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    write_text(sys.stderr, f"{_PROGRAM}: {text}\n")
