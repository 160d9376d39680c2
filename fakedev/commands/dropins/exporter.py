"""fakedev-exporter: a replacement of the original program of this name, with its options and files."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from fakedev.base.console import write_text
from fakedev.base.given_files import read_given
from fakedev.base.names import without_variables
from fakedev.commands.dropins.addresses import EXPORTER_ADDRESS, EXPORTER_SOCKET
from fakedev.schema.go_flags import FlagError, FlagSet, Values, all_interfaces

if TYPE_CHECKING:
    from fakedev.schema.places import Problem

#: The one node of a drop-in; no page shows its name.
NODE: Final = "exporter"
#: The name of the configuration's text in messages.
_OPTIONS: Final = "options"
#: The options that give addresses.
OPTION_BY_KEY: Final = {"web.0.listen": "-address", "workloads.listen.0.listen": "-socket"}


class ExporterOptions:
    """The original's options, and the configuration that they mean."""

    def __init__(self) -> None:
        flags = FlagSet("fakedev-exporter", "simulates devices and shows their metrics")
        self.flags = flags
        self.address = flags.text("address", EXPORTER_ADDRESS, "address of the metrics", "HOST:PORT")
        self.count = flags.integer("count", 1, "how many devices of the list to simulate")
        self.devtype = flags.text("devtype", "devtype.json", "device type: labels, metric ranges", "FILE")
        self.devlist = flags.text("devlist", "devlist.json", "labels of each device", "FILE")
        self.identity = flags.text("identity", "identity.json", "labels and metrics that are shown", "FILE")
        self.socket = flags.text("socket", EXPORTER_SOCKET, "UNIX socket for workloads", "PATH")
        self.base = {
            group: flags.text(f"wl-{group}", "", f"base workload of {what}", "FILE")
            for group, what in (("all", "all devices"), ("even", "even devices"), ("odd", "odd devices"))
        }
        self.web_config = flags.web_config_file("-address")
        self.record = flags.text("record", "", "record the run, to replay it (not in the original)", "FILE")

    def configuration_text(self, values: Values, left_out: Collection[str] = ()) -> str:
        """The configuration that the options mean, as JSON, which is YAML.

        :param left_out: files of base workloads that are not used.
        :raises FlagError: when the name of a file is empty.
        """
        for flag in (self.devtype, self.identity, self.devlist):
            if not values[flag]:
                raise FlagError(f"-{flag.name} must name a file")
        base = []
        for group, path in ((group, values[flag]) for group, flag in self.base.items()):
            if path and path not in left_out:
                # Devices in the file go before the group.
                base.append({"file": _file(path)} | ({} if _names_devices(path) else {"devices": group}))
        tree: dict[str, object] = {
            "version": 1,
            "fleet": {
                "pools": [
                    {
                        "name": "exporter",
                        "nodes": [NODE],
                        "device": _file(values[self.devtype]),
                        "devices": _file(values[self.devlist]),
                        "devices-per-node": values[self.count],
                        "identity": _file(values[self.identity]),
                    }
                ]
            },
            "web": [{"listen": all_interfaces(values[self.address]), "serve": "metrics"}],
            "workloads": {
                "listen": [{"listen": os.path.abspath(values[self.socket]), "mode": "600", "node": NODE}],
                "base": base,
            },
        }
        if values[self.web_config]:
            tree["web-config"] = os.path.abspath(values[self.web_config])
        return without_variables(json.dumps(tree, indent=1))


def _file(path: str) -> str:
    """A path that the configuration does not take for a name in the catalog."""
    return path if "/" in path or "." in path else f"./{path}"


def _of_option(problem: Problem, text: str) -> str:
    """A problem with the name of an option, where that has given the value."""
    if problem.file != _OPTIONS:
        return str(problem)
    is_web_address = '"workloads"' not in "\n".join(text.splitlines()[: problem.line])
    return re.sub("^listen:", "-address:" if is_web_address else "-socket:", problem.text)


def _names_devices(path: str) -> bool:
    """Whether the file of a base workload names its devices; what is wrong with it is found when it is loaded."""
    try:
        fields = json.loads(read_given(path))
        return any(name.lower() == "devices" and value for name, value in fields.items())
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the exporter until SIGTERM, SIGINT or SIGHUP.

    :returns: 0 after a signal.
    """
    options = ExporterOptions()
    with options.flags.usage_errors_exit():
        values = options.flags.parse(arguments)
        text = options.configuration_text(values)
    # A usage error and -help need none of these.
    from fakedev.config.load import load  # noqa: PLC0415
    from fakedev.schema.files import Files  # noqa: PLC0415
    from fakedev.schema.places import ConfigurationError  # noqa: PLC0415

    files = Files(environ=os.environ)
    base = {os.path.normpath(path): path for flag in options.base.values() if (path := values[flag])}
    left_out: set[str] = set()
    while True:
        try:
            configuration = load(_OPTIONS, files, text=text)
            if values[options.web_config]:
                from fakedev.web.web_configs import read_web_configs  # noqa: PLC0415

                read_web_configs(configuration.web_config_sources())
            break
        except ConfigurationError as error:
            # As the original does: a base workload of unknown devices is left out, and the program runs without it.
            unknown = [each for each in error.problems if each.file in base and each.text.startswith("devices: ")]
            shown = unknown or error.problems
        for problem in shown:
            write_text(sys.stderr, f"fakedev-exporter: {_of_option(problem, text)}\n")
        if not unknown:
            return 2
        left_out |= {base[problem.file] for problem in unknown}
        write_text(sys.stderr, f"fakedev-exporter: without the base workload of {', '.join(sorted(left_out))}\n")
        text = options.configuration_text(values, left_out)
    from fakedev.config.start import record_head  # noqa: PLC0415
    from fakedev.service.exporter_program import run_exporter  # noqa: PLC0415 - mistakes in files do not need Twisted

    head = record_head(configuration, files, config=_OPTIONS, text=text)
    run_exporter(configuration, head, values[options.record], OPTION_BY_KEY)
    return 0
