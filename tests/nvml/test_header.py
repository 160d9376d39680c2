"""NVIDIA's own header, of its package on PyPI: our structures, numbers and names are the driver's.

The header is only read here: its licence keeps it out of this project.
"""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

from fakedev.nvml.library import sources, symbols
from tests.nvml.test_build import STRUCTURES
from tests.support.driver.nvml import compiled
from tests.support.programs.processes import skip_or_fail

#: NVIDIA exports it for its own programs, and declares it nowhere.
UNDOCUMENTED = {"nvmlInternalGetExportTable"}
#: Our names of results, where they are not the header's after ``NVML_ERROR_``.
RESULTS = {"SUCCESS": "NVML_SUCCESS", "VERSION_MISMATCH": "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",
           "UNKNOWN_ERROR": "NVML_ERROR_UNKNOWN", "NO_MEMORY": "NVML_ERROR_MEMORY"}  # fmt: skip


@pytest.fixture(scope="module")
def header() -> Path:
    try:
        found = [Path(str(file.locate())) for file in files("nvidia-nvml-dev") or () if file.name == "nvml.h"]
    except PackageNotFoundError:
        found = []
    if not found:
        skip_or_fail("nvidia-nvml-dev, with NVIDIA's header, is not installed")
    return found[0]


def printed(folder: Path, include: Path, values: dict[str, str]) -> dict[str, int]:
    """The values of expressions in C after a header is included."""
    compiled("plain")  # skips the test without a compiler
    lines = " ".join(f'printf("{name} %lld\\n", (long long)({value}));' for name, value in values.items())
    (folder / "values.c").write_text(f'#include <stdio.h>\n#include "{include}"\nint main(void) {{ {lines} }}\n')
    subprocess.run(["cc", "-std=c11", "values.c", "-o", "values"], cwd=folder, check=True)
    output = subprocess.check_output([folder / "values"], text=True)
    return {name: int(number) for name, number in map(str.split, output.splitlines())}


@pytest.mark.slow
def test_structures_and_results(header: Path, tmp_path: Path) -> None:
    own = tmp_path / "nvml.h"
    own.write_text(sources()["nvml.h"])
    results = dict(re.findall(r"^    ([A-Z_]+) = (\d+),$", own.read_text(), re.MULTILINE))
    assert len(results) == 13
    ours = printed(tmp_path, own, {f"size-of-{name}": f"sizeof({name})" for name in STRUCTURES})
    theirs = printed(tmp_path, header, {
        f"size-of-{name}": f"sizeof({theirs.removeprefix('c_')}{'' if theirs.endswith('_t') else '_t'})"
        for name, theirs in STRUCTURES.items()
    })  # fmt: skip
    assert ours == theirs
    numbers = printed(tmp_path, header, {name: RESULTS.get(name, f"NVML_ERROR_{name}") for name in results})
    assert {name: str(number) for name, number in numbers.items()} == results


def test_names(header: Path) -> None:
    """All names that the library exports, but for one, are declared there."""
    declared = set(re.findall(r"\bnvml[A-Z]\w+", header.read_text(encoding="utf-8")))
    assert set(symbols()) - declared == UNDOCUMENTED
