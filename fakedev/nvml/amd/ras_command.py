"""``amd-smi ras``: records of errors (CPER) as a table and as files, and the AFIDs of such a file."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from fakedev.base.errors import plain_reason
from fakedev.base.given_files import read_given
from fakedev.nvml.amd.amdsmi import Handle, Library
from fakedev.nvml.amd.amdsmi_names import AmdSmiLibraryException
from fakedev.nvml.amd.cper import SEVERITY_NAMES, Severity
from fakedev.nvml.amd.gpu import Gpu

_SEVERITIES: Final = {
    "nonfatal-uncorrected": Severity.UNCORRECTED, "fatal": Severity.FATAL, "nonfatal-corrected": Severity.CORRECTED,
}  # fmt: skip
_ALL: Final = "all"
#: Numbers of errors: of a command, of a path.
INVALID_COMMAND, INVALID_PATH = -1, -4
_MOST_BYTES: Final = 2**20
_NO_FILES: Final = (
    "WARNING: No CPER files will be dumped unless --folder=<folder_name> is specified and cper entries exist.\n"
)


class Failure(Exception):
    """The command ends with the number of an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


def add_options(parser: ArgumentParser) -> None:
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--cper", action="store_true", help="records of errors since the service started")
    ways.add_argument("--afid", action="store_true", help="the AFIDs of a record's file")
    parser.add_argument("--severity", nargs="+", default=[_ALL], choices=[*_SEVERITIES, _ALL], type=str.lower)
    parser.add_argument("--folder", help="write each record into this folder, with a JSON file beside it")
    parser.add_argument("--file-limit", type=int, help="keep this number of records in the folder")
    parser.add_argument("--follow", action="store_true", help="and those that follow, until Ctrl+C")
    parser.add_argument("--cper-file", help="with --afid: the file")


def ras(library: Library, gpus: Sequence[Gpu], options: Namespace, output: TextIO) -> None:
    """Print what the options ask for.

    :raises Failure: when it cannot be done.
    """
    if options.afid:
        if not options.cper_file:
            text = "Command 'ras --afid' requires '--cper-file'. Run '--help' for more info."
            raise Failure(INVALID_COMMAND, text)
        output.write(f"{_texts(_afids(library, options.cper_file))}\n")
        return
    if options.follow:
        output.write("Press CTRL + C to stop.\n")
    first = [gpu for gpu in gpus if not gpu.partition]
    if gpus and not first:
        numbers = " ".join(f"GPU{gpu.number - gpu.partition}" for gpu in gpus)
        output.write("WARNING: CPER files are only available on primary partitions\n")
        output.write(f"Try with primary partition {numbers}\n")
        return
    table = _Table(library, options, output)
    table.begin()
    cursors = dict.fromkeys((gpu.bdf for gpu in first), 0)
    while True:
        for gpu in first:
            cursors[gpu.bdf] = table.show(gpu, cursors[gpu.bdf])
        output.flush()
        if not options.follow:
            return
        time.sleep(1.0)


def _afids(library: Library, path: str) -> list[int]:
    try:
        content = read_given(path, _MOST_BYTES)
    except OSError as reason:
        raise Failure(INVALID_PATH, f"Path '{path}' cannot be read: {plain_reason(reason)}.") from None
    try:
        return library.amdsmi_get_afids_from_cper(content)[0]
    except AmdSmiLibraryException:
        raise Failure(INVALID_PATH, f"Path '{path}' is no CPER record.") from None


class _Table:
    """The records that are printed, and maybe written into a folder, with numbers of their own."""

    def __init__(self, library: Library, options: Namespace, output: TextIO) -> None:
        self._library, self._options, self._output = library, options, output
        self._mask = sum(
            1 << severity for name, severity in _SEVERITIES.items() if {name, _ALL} & set(options.severity)
        )
        self._folder = Path(options.folder) if options.folder else None
        self._count = 0

    def begin(self) -> None:
        """Print the titles."""
        if self._folder is None:
            self._output.write(_NO_FILES)
        else:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as reason:
                raise self._failure(reason) from None
        files = "" if self._folder is None else f" {'file_name':<17} list of afids"
        self._output.write(f"{'timestamp':<20} {'gpu_id':<7} {'severity':<20}{files}\n")

    def show(self, gpu: Gpu, cursor: int) -> int:
        """Print the records of a GPU after a cursor; the cursor for the next ones."""
        more = True
        while more:
            try:
                entries, cursor, records, code = self._library.amdsmi_get_gpu_cper_entries(
                    Handle(gpu.bdf), self._mask, cursor=cursor
                )
            except AmdSmiLibraryException:  # a lost board
                return cursor
            more = code != 0
            for entry, record in zip(entries.values(), records, strict=True):
                self._show(gpu, entry, record["bytes"])
        return cursor

    def _show(self, gpu: Gpu, entry: dict[str, Any], record: Sequence[int]) -> None:
        self._count += 1
        name = entry["error_severity"].removeprefix("non_fatal_").upper()
        shown, of_file = SEVERITY_NAMES[Severity[name]]
        files = ""
        if self._folder is not None:
            path = self._folder / f"{of_file}-{self._count}.cper"
            texts = {key: value.decode() if isinstance(value, bytes) else value for key, value in entry.items()}
            try:
                self._make_room(self._folder)
                path.write_bytes(bytes(record))
                path.with_suffix(".json").write_text(json.dumps(texts, indent=2), encoding="utf-8")
            except OSError as reason:
                raise self._failure(reason) from None
            afids = self._library.amdsmi_get_afids_from_cper(bytes(record))[0]
            files = f" {path.name:<17} {_texts(afids)}"
        self._output.write(f"{entry['timestamp']:<20} {gpu.number:<7} {shown:<20}{files}\n")

    def _make_room(self, folder: Path) -> None:
        """Remove the oldest files, so that one more does not exceed the limit."""
        if self._options.file_limit is None:
            return
        files = sorted(folder.glob("*.cper"), key=lambda path: path.stat().st_mtime_ns)
        for path in files[: max(0, len(files) + 1 - max(1, self._options.file_limit))]:
            path.unlink()
            path.with_suffix(".json").unlink(missing_ok=True)

    def _failure(self, reason: OSError) -> Failure:
        return Failure(INVALID_PATH, f"Path '{self._folder}' cannot be written: {plain_reason(reason)}.")


def _texts(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))
