"""``fakedev scale-test``: measures how the throughput grows when backends and load are doubled."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from fakedev.commands.console import write_text
from fakedev.commands.go_flags import FlagError, FlagSet, Values
from fakedev.tester.plan import ClosedLoad, Plan
from fakedev.tester.scaling import scaling_of
from fakedev.tester.scaling_text import scaling_text, scaling_values, verdicts

#: The exit code when a doubling has brought less than required.
NOT_MET: Final = 3
_MAX_BACKENDS: Final = 1 << 20


class ScaleOptions:
    """The options."""

    def __init__(self) -> None:
        flags = FlagSet(
            "fakedev scale-test", "doubles backends and load, and measures the throughput", "[ARGUMENT...]"
        )
        self.flags = flags
        self.faddr = flags.address("faddr", "localhost:9997", "where the frontend's clients connect")
        self.name = flags.text("name", "sleep", "queue that requests are put into", "QUEUE")
        self.limit = flags.seconds("limit", 0.0, "run-time limit of each request; 0: none")
        self.protocol = flags.choice("protocol", ("json", "bare"), "protocol of the frontend: json or bare")
        self.token_file = flags.token_file("; needs -protocol json")
        self.most = flags.unsigned("most", 8, "double from 1 to this many backends")
        self.per_backend = flags.unsigned("per-backend", 1, "parallel requests for each backend")
        self.wanted = flags.number("speed-up", 1.5, "required speed-up of each doubling; else exit 3")
        no_words: tuple[str, ...] = ()
        self.start = flags.value(
            "start", no_words, "command that starts one backend; stopped at the end", "COMMAND", _words
        )
        self.scale = flags.value(
            "scale", no_words, "command that sets the number of backends to {n}, as kubectl scale ... --replicas={n}",
            "COMMAND", _words,
        )  # fmt: skip
        self.wait = flags.seconds(
            "wait", 120.0, "how long to wait until the frontend knows all backends", "DURATION"
        )
        self.settle = flags.seconds("settle", 3.0, "time under load before each measurement", "DURATION")
        self.measure = flags.seconds("measure", 20.0, "how long each step is measured", "DURATION")
        self.json = flags.boolean("json", "print JSON instead of text")

    def check(self, values: Values) -> None:
        """Check the values.

        :raises FlagError: when one cannot be used.
        """
        if not 2 <= values[self.most] <= _MAX_BACKENDS:
            raise FlagError(f"-most: 2 to {_MAX_BACKENDS}")
        if not 1 <= values[self.per_backend] <= _MAX_BACKENDS:
            raise FlagError(f"-per-backend: 1 to {_MAX_BACKENDS}")
        if values[self.start] and values[self.scale]:
            raise FlagError("-start and -scale: give one of them")
        if not values[self.measure]:
            raise FlagError("-measure must be above 0")
        if values[self.token_file] and values[self.protocol] != "json":
            raise FlagError("-token-file needs -protocol json: bare JSON cannot give a token")
        if not values[self.name]:
            raise FlagError("-name must name a queue")


def scale_test(arguments: Sequence[str]) -> int:
    """Run the test.

    :returns: 0; 1 when the test failed; 3 when a doubling brought less than required, or requests failed.
    """
    options = ScaleOptions()
    with options.flags.usage_errors_exit():
        values = options.flags.parse(arguments)
        options.check(values)
    wanted = values[options.wanted]
    from fakedev.app.tester import ScaleOrder, run_scale_test  # noqa: PLC0415 - a usage error does not need Twisted

    steps, problem = run_scale_test(
        ScaleOrder(
            values[options.most], values[options.per_backend], values[options.settle], values[options.measure],
            plan=_plan(options, values), start=values[options.start], scale=values[options.scale],
            wait_seconds=values[options.wait], tell=_tell,
        )
    )  # fmt: skip
    if problem:
        _tell(problem)
        return 1
    scaling = scaling_of(steps)
    if values[options.json]:
        write_text(sys.stdout, json.dumps(scaling_values(scaling, wanted), indent=2) + "\n")
    else:
        write_text(sys.stdout, scaling_text(scaling, wanted))
    return NOT_MET if verdicts(scaling, wanted) else 0


def _plan(options: ScaleOptions, values: Values) -> Plan:
    most = values[options.most] * values[options.per_backend]
    return Plan(
        values[options.name],
        values[options.name],
        ClosedLoad(0, most),
        values[options.faddr].shown,
        values.operands,
        values[options.limit],
        values[options.protocol] == "json",
        values[options.token_file],
    )


def _tell(text: str) -> None:
    write_text(sys.stderr, f"fakedev scale-test: {text}\n")


def _words(text: str) -> tuple[str, ...]:
    words = tuple(shlex.split(text))
    if not words:
        raise ValueError("must be a command")
    return words
