"""``fakedev nvml``: the library by which nvitop, nvtop and other programs see simulated boards."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fakedev.commands.parser import Parser, run_subcommand
from fakedev.nvml.build import CannotBuild, built_command, built_library, compile_library
from fakedev.nvml.environment import Unreadable, default_file, export_lines, node_remark, nodes_of
from fakedev.nvml.override_writer import LOOK_SECONDS, OverrideWriter
from fakedev.spec import environment
from fakedev.spec.os_errors import CannotWrite

#: As those of ``fakedev scenario``.
SUBCOMMANDS: Final = {
    "build": ("fakedev.commands.nvml:build", "compile the library, write the command nvidia-smi"),
    "overrides": ("fakedev.commands.nvml:follow", "write the overrides of NVIDIA's nvml-mock with each tick"),
    "env": ("fakedev.commands.nvml:environment_lines", "print lines that make the programs of a shell use it"),
}


def nvml(arguments: Sequence[str]) -> int:
    """Run a subcommand of ``fakedev nvml``; its exit code."""
    try:
        return run_subcommand("fakedev nvml", SUBCOMMANDS, arguments)
    except CannotBuild as reason:
        _say(str(reason))
        return 1


def build(arguments: Sequence[str]) -> int:
    """Compile the library and write the command; the exit code."""
    description = "Compiles the library, writes the command nvidia-smi, and prints where both are."
    parser = Parser("fakedev nvml build", description=description)
    where = "write the library to this file, in place of both to the user's cache"
    parser.add_argument("--output", metavar="FILE", help=where)
    output = parser.parse_args(list(arguments)).output
    if output is None:
        print(built_library())
        print(built_command())
    else:
        compile_library(Path(output).absolute())
        print(output)
    return 0


def environment_lines(arguments: Sequence[str]) -> int:
    """Print the environment; the exit code: 1 without the library, which nvidia-smi does not need."""
    parser = Parser(
        "fakedev nvml env",
        description='Prints lines for eval "$(fakedev nvml env)" in a shell; compiles the library if need be.',
    )
    _add_source(parser, "programs see")
    options = parser.parse_args(list(arguments))
    path = options.file or default_file(os.environ)
    node = options.node or os.environ.get(environment.NODE, "")
    try:
        remark = node_remark(nodes_of(path), node, f"--node, or set {environment.NODE}")
    except Unreadable as reason:
        remark = f"{reason}; until then programs find no driver"
    command = built_command()
    try:
        library, problem = built_library(), ""
    except CannotBuild as reason:
        library, problem = None, f"nvidia-smi works, other programs do not see the boards: {reason}"
    for line in export_lines(library, path, node, os.environ, command.parent):
        print(line)
    for text in filter(None, (problem, remark)):
        _say(text)
    return 1 if problem else 0


def follow(arguments: Sequence[str]) -> int:
    """Write the overrides of nvml-mock until SIGTERM or SIGINT; the exit code."""
    parser = Parser(
        "fakedev nvml overrides",
        description="Writes overrides.yaml of NVIDIA's nvml-mock with each tick, so that its boards follow a node. "
        "At the end, and without the service, the file is removed.",
    )
    parser.add_argument("folder", metavar="DIR", help="the folder with nvml-mock's config.yaml, as driver/config")
    _add_source(parser, "it follows")
    options = parser.parse_args(list(arguments))
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
    except CannotWrite as reason:
        _say(str(reason))
        return 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _add_source(parser: Parser, what: str) -> None:
    parser.add_argument("--file", metavar="FILE", help="the file of the service (nvml.file of its configuration)")
    parser.add_argument("--node", metavar="NODE", help=f"the node that {what}; default: the only one of the file")


def _say(text: str) -> None:
    print(f"fakedev nvml: {text}", file=sys.stderr, flush=True)
