"""fakedev-node: runs on each node with a kubelet. Signals are handled before anything large is imported."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from fakedev.base.errors import CannotWrite, install_extra, printable
from fakedev.node.options import parse

_REMEDY: Final = f"fakedev-node needs grpcio and protobuf: {install_extra('node')}"
_NAMES: Final = {logging.WARNING: "warn"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program until SIGTERM or SIGINT; return its exit code: 0, or 1 without grpcio or its folder."""
    ends = _Ends()
    settings = parse(arguments, os.environ)
    start_log(settings.log_level)
    log = logging.getLogger("fakedev.node")
    # Instead of what gRPC would log of a connection that fails, we log it once.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        module = import_module("fakedev.node.agent")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        log.error(_REMEDY)
        return 1
    try:
        agent = module.Agent(settings)
    except CannotWrite as reason:
        log.error("--nvml-folder: %s", reason)
        return 1
    ends.pass_on(agent)
    log.info("fakedev-node for node %s, service %s", settings.node, settings.service)
    agent.run()
    log.info("stopped")
    return 0


class _Ends:
    """SIGTERM and SIGINT end the program, also while it is still starting."""

    def __init__(self) -> None:
        self._agent: Any = None
        self._is_ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._received)

    def pass_on(self, agent: Any) -> None:
        """From now on signals stop the agent; one that has come before, too."""
        self._agent = agent
        if self._is_ended.is_set():
            agent.stop()

    def _received(self, number: int, frame: object) -> None:
        self._is_ended.set()
        if self._agent is not None:
            self._agent.stop()


class _Lines(logging.Formatter):
    """Entries in the form of the service's log (doc/service.md): time in UTC, level, text."""

    def format(self, record: logging.LogRecord) -> str:
        milliseconds = int(record.created * 1000) % 1000
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        level = _NAMES.get(record.levelno, record.levelname.lower())
        line = f"{moment}.{milliseconds:03d}Z {level:5} {printable(record.getMessage())[:4000]}"
        if record.exc_info:
            line += "".join(f"\n    | {each}" for each in self.formatException(record.exc_info).splitlines())
        return line


def start_log(level: str) -> None:
    """Log to standard error from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.getLevelNamesMapping()[level.upper()], handlers=[handler], force=True)


if __name__ == "__main__":
    raise SystemExit(main())
