"""The environment in which programs find the library, the file and their node."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from fakedev.base import environment
from fakedev.base.errors import did_you_mean
from fakedev.base.given_files import read_given
from fakedev.nvml.records import (
    FILE_NAME,
    HEAD,
    MAGIC,
    NODE,
    OPEN,
    UNANSWERED_SUFFIX,
    VERSION,
    Counts,
    head_of,
)

_PATH: Final = "LD_LIBRARY_PATH"
_MOST_UNANSWERED: Final = 2**20
#: Nodes that a message names.
_LISTED: Final = 5


class Unreadable(Exception):
    """The file cannot be read; the text says why."""


def default_file(environ: Mapping[str, str]) -> str:
    """The file in the default folder of sockets, as the service and the library find it."""
    given = environ.get(environment.NVML_FILE)
    if given:
        return given
    folder = environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if not folder and environ.get("XDG_RUNTIME_DIR"):
        folder = os.path.join(environ["XDG_RUNTIME_DIR"], "fakedev")
    return os.path.join(folder or os.path.join(environ.get("TMPDIR") or "/tmp", f"fakedev-{os.getuid()}"), FILE_NAME)


def nodes_of(path: str) -> dict[str, int]:
    """The names of the nodes in a file, each with the number of its boards of AMD.

    :raises Unreadable: when there is none, or no service writes it.
    """
    try:
        content = read_given(path)
    except OSError:
        raise Unreadable(f"there is no file {path}: a service writes it with nvml: {{}} in its configuration") from None
    if len(content) < HEAD.size or not content.startswith(MAGIC):
        raise Unreadable(f"{path} is no file for NVML")
    head = {name: int(value) for name, value in HEAD.unpack(content).items() if isinstance(value, int)}
    rooms = ("node_count", "board_count", "part_count", "link_count", "profile_count", "process_capacity")
    counts = Counts(*(head[name] for name in rooms))
    if head["layout_version"] != VERSION or min(counts) < 0 or head_of(counts)["file_bytes"] != len(content):
        raise Unreadable(f"{path} was written by another version of fakedev")
    if head["state"] != OPEN:
        raise Unreadable(f"the service that wrote {path} has ended")
    places = {name: int(value) for name, value in head_of(counts).items() if isinstance(value, int)}
    first = places["first_slot"] + head["published"] % 2 * places["slot_bytes"] + places["nodes_in_slot"]
    nodes = [NODE.unpack(content, first + place * NODE.size) for place in range(counts.nodes)]
    return {str(node["name"]): int(node["amd_count"]) for node in nodes}


def unanswered_calls(path: str) -> dict[str, list[str]]:
    """The functions that the library could not answer, each with the programs that called it.

    :param path: of the file for NVML.
    """
    try:
        lines = read_given(f"{path}{UNANSWERED_SUFFIX}", _MOST_UNANSWERED).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    found: dict[str, set[str]] = {}
    for line in lines:
        call, _, program = line.partition("\t")
        if call.isidentifier() and program.isprintable():
            found.setdefault(call, set()).add(program or "?")
    return {call: sorted(programs) for call, programs in sorted(found.items())}


def node_remark(nodes: Collection[str], node: str, remedy: str) -> str:
    """What the user should know of the choice of a node; empty for nothing.

    :param nodes: those of the file.
    :param node: the chosen one; empty: none is.
    :param remedy: how to choose one, in words after "with".
    """
    some = ", ".join(islice(nodes, _LISTED)) + (", ..." if len(nodes) > _LISTED else "")
    if node and node not in nodes:
        return f"the file has no node {node!r}{did_you_mean(node, nodes, f': it has {some}')}"
    if not node and len(nodes) != 1:
        return f"the file has {len(nodes)} nodes: choose one with {remedy}: {some}"
    return ""


def variables(
    library: Path | None, path: str, node: str, environ: Mapping[str, str], programs: Path | None = None,
    amdsmi: Path | None = None,
) -> dict[str, str]:  # fmt: skip
    """The variables with which programs see simulated boards.

    :param library: None: it could not be compiled, and only our programs see boards.
    :param node: empty: programs see the only node of the file.
    :param environ: where the folders of programs and libraries are that come after ours.
    :param programs: a folder with programs that take the place of NVIDIA's.
    :param amdsmi: the folder with AMD's program and module; None: there are no boards of AMD.
    """
    found = {}
    folders = {_PATH: [library and library.parent], "PATH": [programs, amdsmi], "PYTHONPATH": [amdsmi]}
    for variable, given in folders.items():
        ours = [str(folder) for folder in given if folder is not None]
        if ours:
            others = [part for part in environ.get(variable, "").split(":") if part and part not in ours]
            found[variable] = ":".join([*ours, *others])
    found[environment.NVML_FILE] = os.path.abspath(path)
    return found | ({environment.NODE: node} if node else {})


def export_lines(
    library: Path | None, path: str, node: str, environ: Mapping[str, str], programs: Path | None = None,
    amdsmi: Path | None = None,
) -> list[str]:  # fmt: skip
    """The lines for a shell; the parameters are those of :func:`variables`."""
    lines = ["# Programs of this shell that ask the driver see simulated boards. To undo it, close the shell."]
    found = variables(library, path, node, environ, programs, amdsmi)
    return lines + [f"export {name}={shlex.quote(value)}" for name, value in found.items()]
