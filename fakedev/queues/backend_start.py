"""Composition of ``fakedev-backend``."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from shlex import join
from typing import Any

from twisted.logger import Logger

from fakedev import __version__
from fakedev.queues.backend import BackendProgram, BackendWorker, DeviceFile, JobSource, OneRun, Start, run_location
from fakedev.queues.backend_wire import BareSource, LinesSource
from fakedev.queues.frontend_client import FrontendConnector
from fakedev.queues.process_runs import CannotRun, ProcessRunner, SleepRun
from fakedev.queues.run_reports import SLEEP, BackendCommand, Pace, sleep_seconds
from fakedev.runtime.logs import begin_logging
from fakedev.runtime.reactor import IReactor, program_reactor
from fakedev.runtime.signals import EndingSignals
from fakedev.runtime.tls_settings import ApiServer
from fakedev.schema.files import Unreadable, read_file, read_token
from fakedev.schema.peer_addresses import NO_FILES, Address

_log = Logger()


@dataclass(frozen=True)
class BackendSettings:
    """The options of a backend.

    :param pattern: of the device file; empty for none.
    :param find_files: returns the files that match a pattern.
    :param folder: working directory of the command; empty for this program's.
    :param protocol: ``bare`` or ``json``.
    :param token_file: has the token of the frontend; empty for none.
    """

    queue: str
    command: BackendCommand
    pod: str
    node: str
    find_files: Callable[[str], Sequence[str]]
    frontend: Address
    pattern: str = ""
    folder: str = ""
    null_in: bool = False
    null_out: bool = False
    backoff_seconds: float = 0.0
    max_backoff_seconds: float = 5.0
    reconnect_seconds: float = 60.0
    grace_seconds: float = 25.0
    kill_after_seconds: float = 3.0
    workers: int = 1
    protocol: str = "bare"
    token_file: str = ""
    once: bool = False
    verbose: bool = False


def run_backend(settings: BackendSettings) -> int:
    """Run the program until its work has ended, or a signal.

    :returns: its exit code: 0, or 1 when it could not continue.
    """
    reactor = program_reactor()
    gc.enable()  # it is off while a drop-in starts
    begin_logging("debug" if settings.verbose else "info")
    try:
        program = make_backend(settings, reactor)
    except CannotRun as fault:
        _log.error("{fault}", fault=fault)
        return 1
    signals = EndingSignals(reactor, program.leave, program.cut)
    reactor.callWhenRunning(signals.install)
    reactor.callWhenRunning(program.start)
    reactor.run()
    return program.exit_code


def make_backend(settings: BackendSettings, reactor: IReactor) -> BackendProgram:
    """The backend of these settings.

    :raises CannotRun: when its command cannot be run.
    """
    start = _starter(settings, reactor)
    device = DeviceFile(settings.pattern, settings.find_files)
    if settings.once:
        return BackendProgram([OneRun(start, settings.command, device, settings.grace_seconds, reactor)], reactor)
    connector = make_connector(settings.frontend, reactor, settings.token_file)
    workers = [_worker(settings, start, device, connector, reactor) for _ in range(settings.workers)]
    _announce(settings)
    device.path()  # logs at the start which file it is, or that there is none
    return BackendProgram(workers, reactor)


def make_connector(address: Address, reactor: IReactor, token_file: str = "") -> FrontendConnector:
    """What connects to the frontend at an address.

    :param token_file: has the frontend's token, and is read for each connection; empty for none.
    """
    read = partial(read_token, token_file) if token_file else None
    options = partial(_tls_options, address) if address.tls is not None else None
    return FrontendConnector(
        reactor, path=address.path, host=address.host, port=address.port, shown=address.shown, read_token=read,
        tls_options=options,
    )  # fmt: skip


def _tls_options(address: Address) -> Any:
    """How connections with an address are encrypted.

    :raises ValueError: when a file cannot be read or used, or a package is missing.
    """
    from fakedev.runtime.tls import tls_options  # noqa: PLC0415 - few have TLS

    files = address.tls or NO_FILES
    texts = [_text(name, path) for name, path in vars(files).items()]
    server = ApiServer(address.shown, ca_pem=texts[0], certificate_pem=texts[1], key_pem=texts[2])
    return tls_options(server, address.host)


def _text(name: str, path: str) -> str:
    try:
        return read_file(path) if path else ""
    except Unreadable as error:
        raise ValueError(f"{name.replace('_', '-')}: {path}: {error}") from None


def _worker(
    settings: BackendSettings, start: Start, device: DeviceFile, connector: FrontendConnector, reactor: IReactor
) -> BackendWorker:
    location = partial(run_location, settings.pod, settings.node, device)
    make_source = LinesSource if settings.protocol == "json" else BareSource
    source: JobSource = make_source(connector, settings.queue, location, reactor)
    pace = Pace(settings.backoff_seconds, settings.max_backoff_seconds, settings.reconnect_seconds)
    return BackendWorker(
        source, start, settings.command, device, pace, grace_seconds=settings.grace_seconds, clock=reactor
    )


def _starter(settings: BackendSettings, reactor: IReactor) -> Start:
    """Starts the command; the built-in one needs no process."""
    if settings.command.words[0] == SLEEP:
        return lambda words, limit_seconds: SleepRun(sleep_seconds(words[1:]), limit_seconds, reactor)
    runner = ProcessRunner(
        reactor,
        folder=settings.folder,
        null_in=settings.null_in,
        null_out=settings.null_out,
        kill_after_seconds=settings.kill_after_seconds,
    )
    runner.check(settings.command.words[0])
    return runner.start


def _announce(settings: BackendSettings) -> None:
    limit = f", at most {settings.command.limit_seconds:g} s" if settings.command.limit_seconds else ""
    crowd = f"{settings.workers} workers" if settings.workers > 1 else "one worker"
    _log.info(
        "fakedev-backend {version}: {words}{limit}, for queue {queue!r} of {frontend}; "
        "{crowd} in pod {pod} on node {node}",
        version=__version__, words=join(settings.command.words), limit=limit, queue=settings.queue,
        frontend=settings.frontend.shown, crowd=crowd, pod=settings.pod, node=settings.node,
    )  # fmt: skip
