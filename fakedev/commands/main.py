"""The ``fakedev`` command and its table of subcommands."""

from __future__ import annotations

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import Final

from fakedev import __version__
from fakedev.base.console import write_text
from fakedev.schema.options import Failed, Subcommand, command, imported, run_subcommand, unknown_subcommand
from fakedev.schema.places import ConfigurationError


def serve(arguments: Sequence[str]) -> int:
    """Serve until a signal."""
    from fakedev.config.options import SERVE  # noqa: PLC0415 - as in SUBCOMMANDS

    @command("fakedev serve", "Serves simulated devices until a signal.", *SERVE)
    def run(options: Namespace) -> None:
        from fakedev.service.options import requested  # noqa: PLC0415 - a usage error does not need Twisted
        from fakedev.service.service import run_program  # noqa: PLC0415

        run_program(*requested({name.replace("_", "-"): value for name, value in vars(options).items()}))

    return run(arguments)


#: The subcommands of ``fakedev scenario``, in the form of a group below.
SCENARIO: Final = {
    "run": ("fakedev.commands.scenario.run:run", "run a scenario in virtual time, and write its history and truth"),
    "score": ("fakedev.commands.scenario.score:score", "score alert rules: what each found, how late, what it missed"),
    "tests": ("fakedev.commands.scenario.score:tests", "write a run as a file for promtool test rules"),
    "blocks": ("fakedev.commands.scenario.blocks:blocks", "turn a written history into blocks for Prometheus"),
    "from": ("fakedev.commands.scenario.from_record:from_record", "print a record of a service as a scenario"),
}


scenario: Final = partial(run_subcommand, "fakedev scenario", SCENARIO)
#: The group with the verbs of the workload port, which are not in this table.
_CONTROL: Final = "Watch and control a running service"
#: By group: module and function of each subcommand, which is only imported when it runs, and its line of help.
SUBCOMMANDS: Final = {
    "Simulate": {
        "serve": ("fakedev.commands.main:serve", "start the service; twistd -n fakedev does the same, with a pid file"),
        "render": ("fakedev.commands.render:render", "print pages of a simulated time span, without any socket"),
        "scenario": (
            "fakedev.commands.main:scenario", "run timelines: their history and truth, scores of alert rules",
        ),
        "replay": ("fakedev.commands.replay:replay", "replay a trace of a cluster"),
    },
    _CONTROL: {
        "ps": ("fakedev.commands.reach:ps", "list the running services of this user"),
        "status": ("fakedev.commands.status:status", "print what it does"),
        "top": ("fakedev.commands.top:top", "show it live on the terminal"),
        "queues": ("fakedev.commands.queues:queues", "list its queues, or a frontend's, and why jobs wait"),
        "why": ("fakedev.commands.why:why", "explain a device, pod, workload, queue, page, metric or query"),
        "explain": ("fakedev.commands.why:explain", "the same as why"),
    },
    "What there is": {
        "devices": ("fakedev.commands.catalogs:devices", "device types; --active: the devices of a running service"),
        "identities": ("fakedev.commands.catalogs:identities", "exporters that pages can imitate"),
        "faults": ("fakedev.commands.catalogs:faults", "kinds of faults; --for RULES: those that alert rules find"),
    },
    "Tools": {
        "prometheus": ("fakedev.commands.prometheus:prometheus", "print a configuration of Prometheus that scrapes it"),
        "schema": ("fakedev.commands.catalogs:schema", "print the JSON Schema of a configuration, for editors"),
        "conform": ("fakedev.commands.conform:conform", "compare a page with a captured scrape of the real exporter"),
        "check": ("fakedev.commands.check:check", "check files that a service has written for damage"),
        "clone": (
            "fakedev.commands.clone:clone", "write the configuration of a fleet like the one on scraped pages",
        ),
        "learn": ("fakedev.commands.learn:learn", "write the configuration of a fleet that lives like a real one"),
        "diff": ("fakedev.commands.diff:diff", "list the differences between two identities"),
        "upgrade": (
            "fakedev.commands.upgrade:upgrade", "what another release of an exporter does to rules and dashboards",
        ),
        "sd": ("fakedev.commands.prometheus:discover", "print the nodes as targets, for Prometheus' file_sd_configs"),
        "scale-test": (
            "fakedev.commands.scale_test:scale_test", "double the backends of a queue, and measure the throughput",
        ),
        "calibrate": (
            "fakedev.commands.calibrate:calibrate", "fit a device type to a recorded run of a real board",
        ),
        "nvml": ("fakedev.commands.nvml:nvml", "let nvitop, nvtop and others see boards: build and set up a library"),
        "completion": ("fakedev.commands.completion:completion", "print the completion script of bash, zsh or fish"),
        "kube": ("fakedev.commands.kube:kube", "plan what a Kubernetes cluster would get, or clean it"),
    },
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    :returns: the exit code: 0 success, 1 run-time failure, 2 usage or configuration, 3 a requirement that is not met,
        130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--version"]:
        write_text(sys.stdout, f"fakedev {__version__}\n")
        return 0
    if given[:1] in ([], ["--help"], ["-h"], ["help"]):
        write_text(sys.stdout, f"{_help()}\n")
        return 0 if given else 2
    name, *rest = given
    target = next((group[name][0] for group in SUBCOMMANDS.values() if name in group), "")
    try:
        return _function(name, target)(rest)
    except ConfigurationError as error:
        write_text(sys.stderr, f"{error}\n")
        return 2
    except Failed as error:
        write_text(sys.stderr, f"fakedev {name}: {error}\n")
        return error.code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of the output has gone; what is still buffered has no reader either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _function(name: str, target: str) -> Subcommand:
    if target:
        return imported(target)
    from fakedev.commands.control import VERBS, relay  # noqa: PLC0415 - takes as long as all that serve needs

    if name in VERBS:
        return partial(relay, name)
    known = [known for group in subcommands().values() for known in group]
    return lambda _: unknown_subcommand("fakedev", name, known)


def subcommands() -> dict[str, dict[str, str]]:
    """The subcommands by group, with their lines of help; also the verbs of the workload port."""
    from fakedev.commands.control import VERBS, summary_of  # noqa: PLC0415

    groups = {title: {name: text for name, (_, text) in group.items()} for title, group in SUBCOMMANDS.items()}
    groups[_CONTROL] |= {verb: summary_of(verb) for verb in VERBS}
    return groups


def _help() -> str:
    lines = ["usage: fakedev SUBCOMMAND [OPTIONS]; each subcommand has --help, and fakedev has --version"]
    for title, group in subcommands().items():
        lines += ["", f"{title}:", *(f"  {name:11}  {text}" for name, text in group.items())]
    return "\n".join(lines)
