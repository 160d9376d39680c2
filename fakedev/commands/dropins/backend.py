"""fakedev-backend: takes jobs from the frontend of a queue, runs a command for each, and sends the results."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fakedev.commands.workload.options import find_files
from fakedev.queues.run_reports import PLACEHOLDER, SLEEP, BackendCommand
from fakedev.schema.go_flags import Flag, FlagError, FlagSet, Values, address_with_tls

if TYPE_CHECKING:
    from fakedev.queues.backend_start import BackendSettings

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
        ours = " (not in the original)"
        self._dir = flags.text("dir", "", "working directory of the command", "FOLDER")
        self._ignore = flags.boolean("ignore", "ignore the arguments of requests")
        self._limit = flags.seconds("limit", 0.0, "time limit of each run, unless the request's is smaller; 0: none")
        self._node_env = flags.text("node-env", "", "variable with the node's name; else the host's", "VARIABLE")
        self._pod_env = flags.text("pod-env", "", "variable with the pod's name; else the host's", "VARIABLE")
        self._tls_files = flags.tls_files(ours)
        #: The options that are settings as they are, by the field of BackendSettings.
        self._plain: dict[str, Flag[Any]] = {
            "frontend": flags.address("faddr", "localhost:9999", "where the frontend listens"),
            "queue": flags.text("name", "sleep", "queue to take jobs from", "QUEUE"),
            "pattern": flags.text("glob", "", "the first matching file replaces FILENAME in arguments", "PATTERN"),
            "backoff_seconds": flags.seconds(
                "backoff", 0.0, "when the queue is empty for the n-th time, wait n times this; 0: stop"
            ),
            "max_backoff_seconds": flags.seconds("backoff-max", 5.0, "the longest of these waits"),
            "null_in": flags.boolean("null-in", "the command's input is /dev/null"),
            "null_out": flags.boolean("null-out", "the command's output is /dev/null"),
            "once": flags.boolean("once", "run the command once, without a frontend, and exit"),
            "verbose": flags.boolean("verbose", "log all messages"),
            "workers": flags.unsigned("workers", 1, f"how many jobs run at the same time{ours}"),
            "grace_seconds": flags.seconds("grace", 25.0, f"how long a run may continue after SIGTERM{ours}"),
            "kill_after_seconds": flags.seconds(
                "kill-after", 3.0, f"time from SIGTERM to SIGKILL for a command that does not end{ours}"
            ),
            "reconnect_seconds": flags.seconds(
                "reconnect", 60.0, f"how long to look for a lost frontend; 0: stop at once{ours}"
            ),
            "protocol": flags.choice(
                "protocol", ("bare", "json"), f"protocol: bare, the original's; json, of fakedev's frontend{ours}"
            ),
            "token_file": flags.token_file(f"; needs -protocol json{ours}"),
        }

    def settings(self, values: Values) -> BackendSettings:
        """The settings of these arguments.

        :raises FlagError: when something cannot be used.
        """
        words = values.operands
        if not words or (words[0] != SLEEP and not words[0].startswith("/")):
            given = f", not {words[0]!r}" if words else ""
            raise FlagError(f"give the absolute path of a command, or sleep, and its arguments{given}")
        plain = {field: values[flag] for field, flag in self._plain.items()}
        plain["frontend"] = address_with_tls(plain["frontend"], values, self._tls_files)
        if not plain["pattern"] and any(PLACEHOLDER in word for word in words):
            raise FlagError(f"{PLACEHOLDER} in the command needs -glob PATTERN, which says what the file is")
        if plain["backoff_seconds"] > plain["max_backoff_seconds"]:
            raise FlagError("-backoff is longer than -backoff-max")
        if not 1 <= plain["workers"] <= _MAX_WORKERS:
            raise FlagError(f"-workers: 1 to {_MAX_WORKERS}")
        if plain["token_file"] and plain["protocol"] != "json":
            raise FlagError("-token-file needs -protocol json: bare JSON cannot give a token")
        if not plain["queue"]:
            raise FlagError("-name must name a queue")
        from fakedev.queues.backend_start import BackendSettings  # noqa: PLC0415

        return BackendSettings(
            command=BackendCommand(words, values[self._ignore], values[self._limit]),
            pod=self._name_from(values[self._pod_env]),
            node=self._name_from(values[self._node_env]),
            find_files=find_files,
            folder=os.path.abspath(values[self._dir]) if values[self._dir] else "",
            **plain,
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
    with options.flags.usage_errors_exit():
        settings = options.settings(options.flags.parse(arguments))
    from fakedev.queues.backend_start import run_backend  # noqa: PLC0415

    return run_backend(settings)


if __name__ == "__main__":
    raise SystemExit(main())
