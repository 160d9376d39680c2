"""The NVML library in tests: built once, loaded into the test's process, and asked by NVIDIA's own bindings."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from fakedev.nvml.library import OPTIONS, SONAME, compile_library, library_folder, sources
from fakedev.nvml.smi.boards import VISIBLE
from tests.support.paths import ROOT

#: Eight H100s, of which the first two work; the file is that of ``{file}``.
BOARDS = """
fleet: {{seed: 7, pools: [{{name: dgx, nodes: [dgx-0], device: h100, identity: {identity}{more}}}]}}
web: ["127.0.0.1:9400"]
workloads:
  listen: ["127.0.0.1:9401"]
  base: [{{name: train, devices: "dgx-0/[0-1]", profile: "80:5:0"}}]
nvml: {{file: {file}}}
"""

#: Options of a compiler that make a program end where it reads or computes what it must not.
SANITIZED: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g")


def boards(file: Path, identity: str = "nvidia-gpu-exporter@1-nvml", more: str = "") -> str:
    """A configuration with the file."""
    return BOARDS.format(file=file, identity=identity, more=f", {more}" if more else "")


def compiled(name: str, options: Sequence[str] = ("-O1",)) -> Path:
    """The library with some options, in a folder that all processes of tests share; the test is skipped without cc."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    library = ROOT / ".pytest_cache" / "nvml" / f"{name}-{library_folder()}" / SONAME
    if not library.exists():
        compile_library(library, options)
    return library


def driver(folder: Path, options: Sequence[str] = SANITIZED) -> Path:
    """The program of ``tests/nvml/driver.c`` with the library in it; the test is skipped without cc."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    files = sources()
    for name, text in files.items():
        (folder / name).write_text(text)
    units = [name for name in files if name.endswith(".c")]
    program = folder / "driver"
    subprocess.run(
        ["cc", *OPTIONS, *options, "-I.", "-o", program, *units, ROOT / "tests" / "nvml" / "driver.c"],
        cwd=folder, check=True,
    )  # fmt: skip
    return program


@contextmanager
def bindings(file: Path, node: str = "", visible: str = "") -> Iterator[Any]:
    """NVIDIA's bindings, with the library that reads a file; nothing is initialised at the end."""
    pynvml = pytest.importorskip("pynvml")
    # The loader takes a library that is loaded already by its own name.
    ctypes.CDLL(str(compiled("plain")), mode=ctypes.RTLD_GLOBAL)
    before = {name: os.environ.pop(name, None) for name in ("FAKEDEV_NVML_FILE", "FAKEDEV_NODE", VISIBLE)}
    os.environ["FAKEDEV_NVML_FILE"] = str(file)
    if visible:
        os.environ[VISIBLE] = visible
    if node:
        os.environ["FAKEDEV_NODE"] = node
    try:
        yield pynvml
    finally:
        while _ends(pynvml):
            pass
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _ends(pynvml: Any) -> bool:
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return False
    return True


def error_of(pynvml: Any, function: str, *arguments: Any) -> int:
    """The number of the error of a call; 0 for none."""
    try:
        getattr(pynvml, function)(*arguments)
    except pynvml.NVMLError as error:
        return int(error.value)
    return 0


def number_of(handle: Any) -> int | None:
    """The number that a handle is."""
    return ctypes.cast(handle, ctypes.c_void_p).value


def skip_without(package: str) -> None:
    """Skip a test of a program whose package is missing. It is not imported: some change pynvml for all tests here."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
