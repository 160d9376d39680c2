"""fakedev-backend: takes jobs from the frontend of a queue, runs a command for each, and sends the results."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from fakedev.app.backend import PROTOCOLS, BackendSettings, run_backend
from fakedev.commands.go_flags import FlagError, FlagSet, Values
from fakedev.commands.workload.options import find_files, parse_seconds
from fakedev.config.peer_address import parse_address
from fakedev.workqueue.backend_run import SLEEP, BackendCommand

_MAX_WORKERS: Final = 1000
#: The longest name of a host, pod or node in characters, as in DNS.
_LONGEST_NAME: Final = 253


class BackendOptions:
    """The original's options, and ours.

    :param environ: the process's environment.
    :param host: this machine's name: the name of pod and node when no variable has it.
    """

    def __init__(self, environ: Mapping[str, str], host: str) -> None:
        self._environ = environ
        self._host = host
        flags = FlagSet("fakedev-backend", "runs a command for each request of a queue", "COMMAND [ARGUMENT...]")
        self.flags = flags
        seconds, ours = "SECONDS", " (not in the original)"
        self._faddr = flags.value(
            "faddr", parse_address("localhost:9999"), "where the frontend listens", "HOST:PORT|PATH", parse_address
        )
        self._name = flags.text("name", "sleep", "queue to take jobs from", "QUEUE")
        self._glob = flags.text("glob", "", "the first matching file replaces FILENAME in arguments", "PATTERN")
        self._limit = flags.value(
            "limit", 0.0, "time limit of each run, unless the request's is smaller; 0: none", seconds, parse_seconds
        )
        self._backoff = flags.value(
            "backoff", 0.0, "when the queue is empty for the n-th time, wait n times this; 0: stop", seconds,
            parse_seconds,
        )  # fmt: skip
        self._backoff_max = flags.value("backoff-max", 5.0, "the longest of these waits", seconds, parse_seconds)
        self._dir = flags.text("dir", "", "working directory of the command", "FOLDER")
        self._ignore = flags.boolean("ignore", "ignore the arguments of requests")
        self._null_in = flags.boolean("null-in", "the command's input is /dev/null")
        self._null_out = flags.boolean("null-out", "the command's output is /dev/null")
        self._node_env = flags.text("node-env", "", "variable with the node's name; else the host's", "VARIABLE")
        self._pod_env = flags.text("pod-env", "", "variable with the pod's name; else the host's", "VARIABLE")
        self._once = flags.boolean("once", "run the command once, without a frontend, and exit")
        self._verbose = flags.boolean("verbose", "log all messages")
        self._workers = flags.unsigned("workers", 1, f"how many jobs run at the same time{ours}")
        self._grace = flags.value(
            "grace", 25.0, f"how long a run may continue after SIGTERM{ours}", seconds, parse_seconds
        )
        self._kill_after = flags.value(
            "kill-after", 3.0, f"time from SIGTERM to SIGKILL for a command that does not end{ours}", seconds,
            parse_seconds,
        )  # fmt: skip
        self._reconnect = flags.value(
            "reconnect", 60.0, f"how long to look for a lost frontend; 0: stop at once{ours}", seconds, parse_seconds
        )
        self._protocol = flags.text(
            "protocol", "bare", f"protocol: bare, the original's; json, of fakedev's frontend{ours}", "NAME"
        )

    def settings(self, values: Values) -> BackendSettings:
        """The settings of these arguments.

        :raises FlagError: when something cannot be used.
        """
        words = values.operands
        if not words or (words[0] != SLEEP and not words[0].startswith("/")):
            given = f", not {words[0]!r}" if words else ""
            raise FlagError(f"give the absolute path of a command, or sleep, and its arguments{given}")
        if values[self._backoff] > values[self._backoff_max]:
            raise FlagError("-backoff is longer than -backoff-max")
        if not 1 <= values[self._workers] <= _MAX_WORKERS:
            raise FlagError(f"-workers: 1 to {_MAX_WORKERS}")
        if values[self._protocol] not in PROTOCOLS:
            raise FlagError(f"-protocol: {' or '.join(PROTOCOLS)}, not {values[self._protocol]!r}")
        if not values[self._name]:
            raise FlagError("-name must name a queue")
        return BackendSettings(
            queue=values[self._name],
            command=BackendCommand(words, values[self._ignore], values[self._limit]),
            pod=self._name_from(values[self._pod_env]),
            node=self._name_from(values[self._node_env]),
            find_files=find_files,
            frontend=values[self._faddr],
            pattern=values[self._glob],
            folder=os.path.abspath(values[self._dir]) if values[self._dir] else "",
            null_in=values[self._null_in],
            null_out=values[self._null_out],
            backoff_seconds=values[self._backoff],
            max_backoff_seconds=values[self._backoff_max],
            reconnect_seconds=values[self._reconnect],
            grace_seconds=values[self._grace],
            kill_after_seconds=values[self._kill_after],
            workers=values[self._workers],
            protocol=values[self._protocol],
            once=values[self._once],
            verbose=values[self._verbose],
        )

    def _name_from(self, variable: str) -> str:
        """The value of a variable; the host's name without a variable, or when it is empty."""
        name = (self._environ.get(variable, "") if variable else "") or self._host
        if len(name) > _LONGEST_NAME:
            raise FlagError(f"the name in ${variable} is longer than {_LONGEST_NAME} characters")
        return name.encode("utf-8", "replace").decode("utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    options = BackendOptions(os.environ, socket.gethostname() or "localhost")
    values = options.flags.parse_or_exit(sys.argv[1:] if arguments is None else arguments)
    try:
        settings = options.settings(values)
    except FlagError as error:
        options.flags.refuse(str(error))
    return run_backend(settings)


if __name__ == "__main__":
    raise SystemExit(main())
