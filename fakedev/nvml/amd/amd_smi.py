"""The command ``amd-smi``: runs what its arguments ask for, once or again and again.

Exit codes are those of the real command: 256 less the number of its error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, NoReturn, TextIO

from fakedev.base.errors import plain_reason
from fakedev.nvml.amd import amd_tables as tables
from fakedev.nvml.amd.amd_sections import (
    Section,
    csv_cells,
    is_quantity,
    read_rows,
    read_section,
    sections,
    text_lines,
)
from fakedev.nvml.amd.amdsmi import VERSION, Library
from fakedev.nvml.amd.amdsmi_names import AmdSmiLibraryException
from fakedev.nvml.amd.gpu import NA, Gpu
from fakedev.nvml.amd.ras_command import Failure, add_options, ras
from fakedev.nvml.smi.boards import INTERRUPTED

#: The version of the command of ROCm 7.1, whose output this is like.
_TOOL: Final = "26.1.0"
#: Numbers of errors.
_BAD_PARAMETER, _NO_DEVICE, _NOT_SUPPORTED, _NO_COMMAND, _NO_DRIVER = -2, -3, -7, -10, -34
_MIB: Final = 1 << 20
_GIB_OF_MIB: Final = 1024
#: Commands with what they are for; those of sections have their options from the catalog.
COMMANDS: Final = {
    "version": "versions of the command, the library and the driver", "list": "the GPUs",
    "static": "what does not change", "metric": "what changes", "process": "processes", "monitor": "a line a GPU",
    "topology": "connections between GPUs", "xgmi": "links and their traffic", "partition": "modes of partitions",
    "bad-pages": "pages of memory that are out of use", "firmware": "versions of firmware, which are not simulated",
    "ras": "records of errors (CPER) and their AFIDs",
}  # fmt: skip
_WRITING: Final = ("set", "reset", "event", "profile", "node")


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        text = f"{message[:1].upper()}{message[1:]}. Run 'amd-smi {self.prog} -h' for more info."
        raise Failure(_BAD_PARAMETER, text)


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    try:
        return run(arguments, os.environ, sys.stdout, sys.stderr)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def run(arguments: Sequence[str], environ: Mapping[str, str], output: TextIO, errors: TextIO) -> int:
    """As :func:`main`, with what it reads and writes as arguments."""
    form = next((form_name for form_name in ("json", "csv") if f"--{form_name}" in arguments), "")
    try:
        return _run(arguments, environ, output)
    except Failure as failure:
        text = f"{failure.text} Error code: {failure.code}\n"
        if form == "json":
            text = json.dumps({"error": failure.text, "code": failure.code}) + "\n"
        errors.write(text)
        return failure.code & 0xFF


def _run(arguments: Sequence[str], environ: Mapping[str, str], output: TextIO) -> int:
    name, *rest = arguments or ("",)
    name = {"ucode": "firmware", "--version": "version", "dmon": "monitor"}.get(name, name)
    if name in ("-h", "--help"):
        output.write(_help())
        return 0
    if name in _WRITING:
        raise Failure(_NOT_SUPPORTED, f"Command '{name}' is not supported by the simulation.")
    if name and name not in COMMANDS:
        text = f"AMD-SMI Command '{name}' is invalid. Run 'amd-smi -h' for more info."
        raise Failure(_NO_COMMAND, text)
    parser = _parser(name)
    options = parser.parse_args(rest)
    if options.help:
        output.write(parser.format_help())
        return 0
    library = Library(environ)
    show = _ras if name == "ras" else partial(_repeat, name=name)
    if not options.file:
        return show(library, options=options, output=output)
    try:
        with open(options.file, "w", encoding="utf-8") as file:
            return show(library, options=options, output=file)
    except OSError as reason:
        raise Failure(_BAD_PARAMETER, f"Path '{options.file}' cannot be written: {plain_reason(reason)}.") from None


def _ras(library: Library, options: Namespace, output: TextIO) -> int:
    if not (options.cper or options.afid):
        raise Failure(_BAD_PARAMETER, "One of the arguments --cper --afid is required. Run 'amd-smi ras -h'.")
    gpus = [] if options.afid else _gpus(library, options.gpu)
    if gpus:
        library.amdsmi_init()
    ras(library, gpus, options, output)
    return 0


def _help() -> str:
    lines = (f"  {name:12}{about}" for name, about in COMMANDS.items())
    head = f"amd-smi {_TOOL} of fakedev: its boards are simulated."
    usage = "usage: amd-smi [COMMAND] [OPTIONS]; amd-smi COMMAND -h for its options"
    return "\n".join([head, "", usage, "", *lines, ""])


def _parser(name: str) -> _Parser:
    parser = _Parser(prog=name, add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-g", "--gpu", nargs="+", default=[], help="number, PCI address or UUID of GPUs; all")
    for option in ("--json", "--csv"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--file", help="write to this file")
    parser.add_argument("--loglevel", help="has no effect")
    if name in ("metric", "monitor", "process"):
        parser.add_argument("-w", "--watch", type=float, help="again after these seconds")
        parser.add_argument("-W", "--watch_time", type=float, help="for these seconds")
        parser.add_argument("-i", "--iterations", type=int, help="as often")
    if name == "ras":
        add_options(parser)
    for flags in _flags(name):
        parser.add_argument(*flags, action="store_true", dest=flags[0])
    return parser


def _flags(name: str) -> Iterable[tuple[str, ...]]:
    """The options that choose sections or tables; those of two sections once."""
    found = {section.options[0]: section.options for section in sections().get(name, ()) if section.options}
    if name == "topology":
        found = {option: (option,) for _, option, _ in tables.TOPOLOGY}
    if name == "monitor":
        found["-q"] = ("-q", "--process")
    return found.values()


def _chosen(name: str, options: Namespace) -> list[Section]:
    of_command = sections()[name]
    chosen = [section for section in of_command if any(vars(options).get(option) for option in section.options)]
    return chosen or [section for section in of_command if section.is_usual]


def _repeat(library: Library, name: str, options: Namespace, output: TextIO) -> int:
    started, delay = time.monotonic(), getattr(options, "watch", None)
    last = getattr(options, "iterations", None)
    for done in count(1):
        gpus = _gpus(library, options.gpu)
        stamp = {"timestamp": int(time.time())} if delay is not None else {}
        output.writelines(f"{line}\n" for line in _lines(library, name, options, gpus, stamp, is_first=done == 1))
        output.flush()
        ends = options.watch_time is not None and time.monotonic() - started + (delay or 0) > options.watch_time if (
            delay is not None) else True
        if ends or done == last:
            return 0
        time.sleep(max(0.0, delay or 0.0))
    return 0


def _gpus(library: Library, names: Sequence[str]) -> list[Gpu]:
    try:
        library.amdsmi_init()
        found = library.gpus()
        library.amdsmi_shut_down()
    except AmdSmiLibraryException:
        text = "amdgpu driver is not loaded: no service of fakedev writes the file for NVML."
        raise Failure(_NO_DRIVER, text) from None
    if not names or "all" in names:
        return found
    chosen = []
    for name in names:
        matches = [
            gpu for gpu in found if name.lower() in (
                str(gpu.number), gpu.bdf, gpu.bdf.removeprefix("0000:"),
                (gpu.board.part or gpu.board.view).text("uuid").lower())
        ]  # fmt: skip
        if not matches:
            raise Failure(_NO_DEVICE, f"Can not find a device: GPU '{name}'")
        chosen += matches
    return chosen


def _lines(
    library: Library, name: str, options: Namespace, gpus: Sequence[Gpu], stamp: Mapping[str, int], *, is_first: bool
) -> Iterable[str]:  # fmt: skip
    driver = gpus[0].board.node.text("driver_version") if gpus else NA
    if not name:
        return tables.overview(gpus, _TOOL, driver, VERSION)
    if name == "version":
        return _version(library, driver, options)
    if name == "monitor":
        return _monitor(options, gpus, stamp, is_first=is_first)
    if name in _WHOLE:
        if options.csv:
            raise Failure(_NOT_SUPPORTED, f"Command '{name} --csv' is not supported by the simulation.")
        found, people = _WHOLE[name]
        return [json.dumps(found(gpus, options), indent=4)] if options.json else people(gpus, options)
    rows = [{"gpu": gpu.number, **stamp, **_values(name, options, gpu)} for gpu in gpus]
    if options.json:
        is_wrapped = name in ("static", "metric")
        return [json.dumps({"gpu_data": rows} if is_wrapped else rows, indent=4)]
    return _csv(name, rows) if options.csv else _text(name, rows)


def _values(name: str, options: Namespace, gpu: Gpu) -> dict[str, Any]:
    if name in ("static", "metric"):
        return {section.name: read_section(gpu, section) for section in _chosen(name, options)}
    if name == "list":
        return read_rows(gpu, sections()["list"][0].rows)
    if name == "process":
        return {"process_list": tables.processes(gpu, for_people=not (options.json or options.csv))}
    return tables.bad_pages(gpu) if name == "bad-pages" else {"fw_list": [] if options.json else NA}


def _text(name: str, rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    for row in rows:
        yield f"GPU: {row.pop('gpu')}"
        if name == "process":
            for process in row["process_list"]:
                yield from text_lines(process, 1)
        else:
            if isinstance(row.get("clock"), dict):
                row["clock"] = {key: clock for key, clock in row["clock"].items() if _is_known(clock)}
            yield from text_lines(row, 1)
        yield ""


def _is_known(clock: Any) -> bool:
    return isinstance(clock, dict) and clock.get("clk") != NA


def _csv(name: str, rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    if name == "process":
        rows = [
            {"gpu": row["gpu"], **(process if isinstance(process, dict) else {"process_info": process})}
            for row in rows for process in (one["process_info"] for one in row["process_list"])
        ]  # fmt: skip
    if name == "list":
        rows = [{f"gpu_{key}" if key in ("bdf", "uuid") else key: item for key, item in row.items()} for row in rows]
    cells = [csv_cells(row) for row in rows]
    titles = list(dict.fromkeys(key for row in cells for key in row))
    yield ",".join(titles)
    yield from (",".join(_cell(row.get(key, NA)) for key in titles) for row in cells)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        value = str([item["value"] if is_quantity(item) else item for item in value])
    text = str(value)
    return f'"{text}"' if "," in text else text


def _version(library: Library, driver: str, options: Namespace) -> Iterable[str]:
    version = library.amdsmi_get_lib_version()
    of_library = "{major}.{minor}.{release}".format(**version)
    found = {
        "tool": "AMDSMI Tool", "version": _TOOL, "amdsmi_library_version": of_library,
        "rocm_version": VERSION, "amdgpu_version": driver, "amd_hsmp_driver_version": NA,
    }  # fmt: skip
    if options.json:
        return [json.dumps([found], indent=4)]
    if options.csv:
        return [",".join(found), ",".join(found.values())]
    return [
        f"AMDSMI Tool: {_TOOL} | AMDSMI Library version: {of_library} | ROCm version: {VERSION} | "
        f"amdgpu version: {driver} | amd_hsmp version: {NA}"
    ]


def _monitor(options: Namespace, gpus: Sequence[Gpu], stamp: Mapping[str, int], *, is_first: bool) -> Iterable[str]:
    chosen = [
        section.name for section in sections()["monitor"] if any(vars(options).get(each) for each in section.options)
    ]
    columns = tables.monitor_columns(chosen)
    by_key = {row.key: row for section in sections()["monitor"] for row in section.rows}
    rows: list[dict[str, Any]] = []
    for gpu in gpus:
        values = read_rows(gpu, [by_key[key] for key in columns])
        if not chosen:
            for key in ("vram_used", "vram_total"):
                values[key] = {"value": round(values[key]["value"] / _GIB_OF_MIB, 1), "unit": "GB"}
        rows.append({**stamp, "gpu": gpu.number, "xcp": gpu.partition, **values})
    if options.json:
        yield json.dumps(rows, indent=4)
    elif options.csv:
        yield from _csv("monitor", rows)
    elif rows:
        yield from tables.monitor_lines(rows, is_usual=not chosen, with_titles=is_first)
        if vars(options).get("-q"):
            yield from tables.process_table(gpus)


def _tables_of(options: Namespace) -> Sequence[tuple[str, str, str]]:
    return [topology for topology in tables.TOPOLOGY if vars(options).get(topology[1])] or tables.TOPOLOGY


def _topology(gpus: Sequence[Gpu], options: Namespace) -> list[dict[str, Any]]:
    keys = ("gpu", "bdf", *(key for _, _, key in _tables_of(options)))
    found = tables.topology(gpus)
    for row in found:
        row["links"] = [{key: link[key] for key in link if key in keys} for link in row["links"]]
    return found


def _topology_lines(gpus: Sequence[Gpu], options: Namespace) -> Iterable[str]:
    found = tables.topology(gpus)
    for title, _, key in _tables_of(options):
        yield from tables.grid(title, gpus, [[link[key] for link in row["links"]] for row in found])


#: What shows all GPUs at once: for JSON, and for people.
_Shown = tuple[Callable[[Sequence[Gpu], Namespace], Any], Callable[[Sequence[Gpu], Namespace], Iterable[str]]]
_WHOLE: Final[Mapping[str, _Shown]] = {
    "topology": (_topology, _topology_lines),
    "xgmi": (lambda gpus, options: tables.xgmi(gpus), lambda gpus, options: tables.xgmi_lines(gpus)),
    "partition": (lambda gpus, options: tables.partitions(gpus), lambda gpus, options: tables.partition_lines(gpus)),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
