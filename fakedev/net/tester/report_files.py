"""Files that say at the end what came of a load."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.application.service import Service
from twisted.logger import Logger

from fakedev.net.tester.service import LoadTester
from fakedev.tester.report_text import progress_text


class ReportFiles(Service):
    """Says in the log, and in files, what came of the load when it ends.

    :param paths: their names say in which form.
    """

    log = Logger()

    def __init__(self, tester: LoadTester, paths: Sequence[str]) -> None:
        self._tester = tester
        self._paths = paths

    def stopService(self) -> None:
        """The load is over."""
        super().stopService()
        self._tester.stopService()
        self.log.info("load: {text}", text=progress_text(self._tester.total, self._tester.now))
        report = self._tester.report("Load of fakedev")
        for path in self._paths:
            try:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(report.as_file(path))
            except OSError as error:
                self.log.error("the report {path} cannot be written: {error}", path=path, error=error.strerror)
