"""Which elements a real ``nvidia-smi -q -x`` has by type of board, whether they are ``N/A``, and the form of values.

``python -m tests.support.driver.report_elements`` prints what is different in our reports, by board; with captures as
arguments (``TYPE=FILE``) it writes the table anew before that.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from xml.etree import ElementTree

from tests.support.application import application
from tests.support.driver.nvidia_smi import Command
from tests.support.paths import ROOT

TABLE: Final = ROOT / "tests" / "data" / "nvidia-smi" / "elements.txt"
#: They depend on what runs, and on the clocks of the board.
_GROUPS: Final = ("supported_clocks", "processes", "accounted_processes")
_MISSING: Final = "--"
#: A number, with or without its unit; the unit tells a value's form.
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?(?=$| [A-Za-z%(])")
_WORDS: Final = re.compile(r"[A-Za-z]+(?:[ -][A-Za-z]+)*")
#: Hexadecimal digits, which are letters on some boards.
_HEXADECIMAL: Final = ("pci_bus", "pci_device", "pci_domain")
_FLEET: Final = """
fleet:
  pools: [{pools}]
nvml: {{file: {file}}}
"""


class Capture(NamedTuple):
    """The form of each element of a board's report, by its path.

    :ivar device: our type of the board.
    :ivar driver: its version.
    """

    device: str
    driver: str
    forms: Mapping[str, str]


def form_of(text: str) -> str:
    """What a value looks like, without what differs from board to board: ``N/A``, ``# W``, ``#.# W``, ``words``."""
    if text in ("", "N/A"):
        return text or "empty"
    number = _NUMBER.match(text)
    if number:
        return ("#.#" if number[1] else "#") + text[number.end() :]
    return "words" if _WORDS.fullmatch(text) else "text"


def forms_of(gpu: ElementTree.Element, path: str = "") -> dict[str, str]:
    """The forms of all elements of a board, by their path."""
    found: dict[str, str] = {}
    for each in gpu:
        name = f"{path}{each.tag}"
        if each.tag in _GROUPS:
            found[name] = "group"
        elif len(each):
            found |= forms_of(each, f"{name}/")
        else:
            found[name] = "text" if each.tag in _HEXADECIMAL else form_of((each.text or "").strip())
    return found


def captures() -> list[Capture]:
    """The captures of the table."""
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    (_, *heads), *rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    columns = zip(*(row[1:] for row in rows), strict=True)
    found = []
    for head, forms in zip(heads, columns, strict=True):
        device, driver = head.split()
        own = {row[0]: form for row, form in zip(rows, forms, strict=True) if form != _MISSING}
        found.append(Capture(device, driver, own))
    return found


def our_reports(folder: Path, wanted: Sequence[Capture]) -> Iterator[dict[str, str]]:
    """The forms of our reports on the boards of some captures, with their drivers."""
    pools = ", ".join(
        f"{{name: n{number}, nodes: [n{number}], device: {each.device}, driver: {each.driver}, devices-per-node: 1}}"
        for number, each in enumerate(wanted)
    )
    file = folder / "nvml.map"
    with application(_FLEET.format(pools=pools, file=file)):
        for number in range(len(wanted)):
            smi = Command(file)
            smi.environ["FAKEDEV_NODE"] = f"n{number}"
            gpu = ElementTree.fromstring(smi("-q", "-x")).find("gpu")
            assert gpu is not None
            yield forms_of(gpu)


def differences(real: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Elements whose form is another one: that of the capture, and ours."""
    return {
        path: pair
        for path in [*real, *(path for path in ours if path not in real)]
        if (pair := (real.get(path, _MISSING), ours.get(path, _MISSING)))[0] != pair[1]
    }


def table_of(files: Mapping[str, Path]) -> str:
    """The table of some captures, by our types of the boards."""
    heads, columns = [], []
    for device, file in files.items():
        root = ElementTree.parse(file).getroot()
        gpu = root.find("gpu")
        assert gpu is not None
        heads.append(f"{device} {root.findtext('driver_version')}")
        columns.append(forms_of(gpu))
    paths = dict.fromkeys(path for column in columns for path in column)
    lines = [" | ".join(["element", *heads])]
    lines += [" | ".join([path, *(column.get(path, _MISSING) for column in columns)]) for path in paths]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    if arguments:
        head = "".join(line for line in TABLE.open() if line.startswith("#")) if TABLE.exists() else ""
        pairs = (argument.partition("=")[::2] for argument in arguments)
        TABLE.write_text(head + table_of({device: Path(file) for device, file in pairs}))
    wanted = captures()
    with TemporaryDirectory() as folder:
        for capture, ours in zip(wanted, our_reports(Path(folder), wanted), strict=True):
            other = differences(capture.forms, ours)
            sys.stdout.write(f"{capture.device}: {len(other)} of {len(capture.forms)} differ\n")
            for path, (real, our) in other.items():
                sys.stdout.write(f"    {path}: {real}, ours {our}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
