"""What a job of a work queue costs in instructions, which do not depend on neighbours or the kind of processor.

``python benchmarks/message_cost.py KIND SECONDS`` serves the two ports of a queue, lets a load client use them for so
long, and prints how many jobs were over; :func:`message_cost` runs that under callgrind.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from results import Section, Target

_HERE: Final = Path(__file__).resolve().parent
#: A short and a long load: what only one of them has is the cost of its jobs, without that of the start.
_SECONDS: Final = (2.0, 10.0)
#: Instructions for a job before, by the kind of load.
_BEFORE: Final = (("kept", "lines", 289_000), ("kept, singly", "lines-singly", 374_000), ("bare", "bare", 1_295_000))
_COUNTED: Final = re.compile(r"Collected : (\d+)")
_KEPT: Final = ("--producers=64", "--workers=64", "--flight=16")
_BARE: Final = ("--producers=64", "--workers=16")


def message_cost() -> Section:
    """Instructions for a job."""
    section = Section(
        "Instructions for a job",
        f"""
Instructions that the process executes for a job without any work, counted by callgrind; those of the kernel are not
in it. The ports of the queue run alone, without a fleet, with the load client of the section above: loads of
{_SECONDS[0]:g} s and of {_SECONDS[1]:g} s, and the difference of their instructions divided by the difference of
their jobs. The counts differ by some percent between runs, because the number of messages in one read differs. A
second of one kind of processor executes twice as many of them as one of another: that is why they are counted. *Before*
is what this benchmark found on 2026-11-23, before they were counted for the first time.
""",
        ["instructions", "before", "ratio"],
    )
    if shutil.which("valgrind") is None:
        section.add("not measured: there is no valgrind", "", "", "")
        return section
    for name, kind, before in _BEFORE:
        (start, fewer), (end, more) = (_counted(kind, seconds) for seconds in _SECONDS)
        count = (end - start) / (more - fewer)
        ratio = count / before
        section.add(name, f"{count:,.0f}", f"{before:,}", f"{ratio:.2f}", judged=ratio, target=Target(0.9))
    return section


def _counted(kind: str, seconds: float) -> tuple[int, int]:
    """Instructions of a server under callgrind, and jobs."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", sys.executable, __file__]
        run = subprocess.run(
            [*command, kind, str(seconds)], capture_output=True, text=True, check=True, cwd=_HERE.parent
        )
    found = _COUNTED.search(run.stderr)
    if found is None:
        raise RuntimeError(f"callgrind counted nothing: {run.stderr[-1000:]}")
    return int(found[1]), int(run.stdout)


def main() -> None:
    """Serve, and print the number of jobs."""
    from twisted.internet.utils import getProcessOutput  # noqa: PLC0415

    from fakedev.queues.backend_port import QueueBackendFactory  # noqa: PLC0415
    from fakedev.queues.broker import Broker  # noqa: PLC0415
    from fakedev.queues.client_port import QueueClientFactory  # noqa: PLC0415
    from fakedev.queues.port import QueueHub  # noqa: PLC0415
    from fakedev.queues.settings import BrokerSpec, QueueSpec  # noqa: PLC0415
    from fakedev.runtime.reactor import program_reactor  # noqa: PLC0415
    from fakedev.runtime.turns import FairShare  # noqa: PLC0415

    reactor: Any = program_reactor()  # the others import this file without a reactor
    kind, seconds = sys.argv[1:]
    shared = FairShare(reactor)
    hub = QueueHub(Broker(BrokerSpec((QueueSpec("sleep"),)), reactor.seconds()), reactor, shared)
    options = {"fair_share": shared, "idle_answer_seconds": 60.0}
    ports = [factory(hub, reactor, **options) for factory in (QueueClientFactory, QueueBackendFactory)]
    hosts = [reactor.listenTCP(0, port, interface="127.0.0.1").getHost() for port in ports]
    addresses = [f"{host.host}:{host.port}" for host in hosts]
    load = ["-S", str(_HERE / "queue_load.py"), kind, *addresses, f"--seconds={seconds}"]
    load += _BARE if kind == "bare" else _KEPT

    def over(output: bytes) -> None:
        print(json.loads(output)["requests"])
        reactor.stop()

    def failed(failure: Any) -> None:
        print(failure, file=sys.stderr)
        reactor.stop()

    def begin() -> None:
        getProcessOutput(sys.executable, load, errortoo=True).addCallback(over).addErrback(failed)

    reactor.callWhenRunning(begin)
    reactor.run()


if __name__ == "__main__":
    main()
