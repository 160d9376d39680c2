"""The simulated nvidia-smi in tests, in the test's process."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fakedev.nvml.smi.boards import Failure
from fakedev.nvml.smi.main import run
from tests.support.application import MemoryApplication, application
from tests.support.driver.nvml import boards


class Command:
    """The command, which reads a file; with what it wrote last to standard error."""

    def __init__(self, file: Path) -> None:
        self.environ = {"FAKEDEV_NVML_FILE": str(file)}
        self.code = 0
        self.errors = ""

    def __call__(self, *arguments: str) -> str:
        output, errors = io.StringIO(), io.StringIO()
        try:
            self.code = run(arguments, self.environ, output, errors)
        except Failure as failure:
            self.code = failure.code
            self.errors = errors.getvalue() + failure.reason
            return f"{output.getvalue()}{failure.text}\n"
        self.errors = errors.getvalue()
        return output.getvalue()

    def rows(self, *fields: str, form: str = "csv,noheader,nounits") -> list[list[str]]:
        """The cells of a query of boards."""
        return [line.split(", ") for line in self(f"--query-gpu={','.join(fields)}", f"--format={form}").splitlines()]


@contextmanager
def command(tmp_path: Path, more: str = "") -> Iterator[tuple[MemoryApplication, Command]]:
    """The service in memory, and the command beside it."""
    file = tmp_path / "nvml.map"
    with application(boards(file, more=more)) as app:
        yield app, Command(file)
