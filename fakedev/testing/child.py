"""The process that starts the services of tests: each is a copy of it, which has all modules already.

So a service is there in a tenth of a second, where a program that begins from nothing needs seconds for its imports.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, Final, NoReturn

from fakedev.app.early_signals import EarlySignals
from fakedev.app.options import order_of
from fakedev.app.service import run_program
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.sim.fleet import Fleet
from fakedev.spec.record_head import RecordHead
from fakedev.testing.free_ports import on_free_ports, scenario_on_free_ports
from fakedev.testing.order import DEFAULT, Order

#: How often a process looks whether the test's process is still there: a copy of that may have the other end.
_LOOK_SECONDS: Final = 1.0
#: How long a service may take to stop after the test's process has gone.
_GRACE_SECONDS: Final = 10.0


def main() -> None:
    """Start services until standard input, a socket, ends.

    Each byte that comes with a socket starts one, with that socket as its standard input: the service reads a line of
    JSON from it (see :func:`_serve`), writes its process number and, before it ends, its exit code; it stops when the
    socket ends.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # this process does not wait for the services
    parent = os.getppid()
    # What a service imports only when it needs it is imported now, and what it reads is read.
    Fleet(load(None, Files(environ={}), text=DEFAULT).fleet)
    gc.freeze()
    requests = socket.socket(fileno=0)
    while os.getppid() == parent:
        if not select.select([requests], [], [], _LOOK_SECONDS)[0]:
            continue
        data, descriptors, _, _ = socket.recv_fds(requests, 1, 1)
        if not data:
            return
        if os.fork() == 0:
            _become_service(requests, descriptors[0])
        os.close(descriptors[0])


def _become_service(requests: socket.socket, control: int) -> NoReturn:
    """Be a service in a process of its own.

    :param control: its standard input.
    """
    code = 1
    try:
        starter = os.getppid()
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        requests.detach()
        os.dup2(control, 0)
        os.close(control)
        asked = json.loads(_line())
        os.environ.clear()
        os.environ.update(asked["environment"])
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.write(0, f"{os.getpid()}\n".encode())
        Thread(target=_end_with, args=[starter], daemon=True).start()
        EarlySignals((signal.SIGTERM, signal.SIGINT)).install()
        _serve(asked)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        with suppress(OSError):
            os.write(0, f"{code}\n".encode())
        os._exit(code)


def _line() -> bytes:
    """The line that standard input begins with; nothing follows it."""
    data = b""
    while not data.endswith(b"\n"):
        more = os.read(0, 65536)
        if not more:
            raise SystemExit(0)  # the test has gone
        data += more
    return data


def _serve(asked: Mapping[str, Any]) -> None:
    """Serve until a signal.

    :param asked: ``fleet``, the parameters of an Order; ``files``, the paths of ``record`` and ``ready-file``.
    """
    fleet = Order(**asked["fleet"])
    given: dict[str, Any] = dict.fromkeys(("print-config", "check"))
    given |= {"config": fleet.config or None, "scenario": fleet.scenario or None, **asked["files"]}
    order = order_of(given | {"set": fleet.overrides_of(0)})
    if fleet.identity:
        order = order_of(given | {"set": fleet.overrides_of(len(order.configuration.fleet.pools))})
    folder, run, again = Path(asked["log"]).parent, order.run, order.run.read_again
    if again is not None:
        read = again
        run = replace(run, read_again=lambda: _moved(folder, *read()))
    if run.scenario is not None:
        run = replace(run, scenario=scenario_on_free_ports(run.scenario, folder))
    run_program(on_free_ports(order.configuration, folder), run)


def _moved(folder: Path, configuration: Configuration, head: RecordHead) -> tuple[Configuration, RecordHead]:
    return on_free_ports(configuration, folder), head


def _end_with(starter: int) -> None:
    """End this process when standard input ends, or when the process that started it has ended."""
    while os.getppid() == starter:
        if select.select([0], [], [], _LOOK_SECONDS)[0] and not os.read(0, 4096):
            break
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_SECONDS)
    os._exit(1)
