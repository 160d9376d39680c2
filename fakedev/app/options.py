"""The options of the service, and the configuration that they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from fakedev import __version__
from fakedev.app.configuration_options import SERVE, Option
from fakedev.app.run import Run, read_again, record_head
from fakedev.config.configuration import Configuration
from fakedev.config.export import effective_text
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import ConfigurationError


@dataclass(frozen=True)
class Order:
    """A configuration to be served, and how."""

    configuration: Configuration
    run: Run


def order_of(given: Mapping[str, Any]) -> Order:
    """What the options of SERVE ask for.

    :param given: the values by the names of the options.
    :raises SystemExit: when the program has nothing to serve: 2 after all problems of the configuration, 0 after what
        ``--check`` or ``--print-config`` prints.
    """
    scenario = None
    try:
        if given["scenario"]:
            from fakedev.config.scenarios import load_scenario  # noqa: PLC0415 - most runs have none

            scenario = load_scenario(given["scenario"], os.environ, given["config"], given["set"])
            configuration, files, config, overrides = scenario.configurations[0]
        else:
            config, overrides, files = given["config"], tuple(given["set"]), Files(environ=os.environ)
            configuration = load(config, files, overrides)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
    if given["print-config"]:
        sys.stdout.write(effective_text(configuration))
        raise SystemExit(0)
    _check_web_configs(configuration)
    if given["check"]:
        _check_kubeconfig(configuration)
        for note in configuration.notes:
            sys.stderr.write(f"note: {note}\n")
        topology = configuration.source["topology"] if configuration.topology is not None else ""
        sys.stdout.write(f"{topology or given['scenario'] or config or 'the built-in demo'}: good\n")
        raise SystemExit(0)
    head = record_head(configuration, files, config=config, overrides=overrides)
    # twistd changes the working directory when it becomes a daemon.
    record, ready_file = (given[option] and os.path.abspath(given[option]) for option in ("record", "ready-file"))
    again = partial(read_again, config and os.path.abspath(config), overrides, of_scenario=scenario is not None)
    run = Run(head, record or "", ready_file or "", read_again=again, scenario=scenario)
    return Order(configuration, run)


def _check_web_configs(configuration: Configuration) -> None:
    """Check the web configuration files, which are no part of the configuration, because they have secrets.

    :raises SystemExit: 2 after their problems.
    """
    from fakedev.app.web_config import read_web_configs, sources_of  # noqa: PLC0415 - not for a usage error

    try:
        read_web_configs(sources_of(configuration))
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None


def _check_kubeconfig(configuration: Configuration) -> None:
    """Check the kubeconfig of a configuration, which is no part of it, because it has secrets.

    :raises SystemExit: 2 after its problems.
    """
    if configuration.kubernetes is None or not configuration.kubernetes.settings.kubeconfig:
        return
    from fakedev.app.api_server import api_server  # noqa: PLC0415 - only with a cluster

    try:
        api_server(configuration.kubernetes.settings, os.environ)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None


def _opt_method(option: Option) -> Callable[[Options, str], None]:
    def opt(options: Options, text: str) -> None:
        assert option.assigns is not None
        try:
            options["set"].append(option.assigns(text))
        except ValueError as error:
            raise UsageError(f"--{option.name}: {error}") from None

    opt.__doc__ = f"{option.kind}: {option.help}"
    return opt


class Options(UsageOptions):
    """The options of ``twistd fakedev``, as SERVE declares them; they load the configuration."""

    optParameters: ClassVar[list[list[Any]]] = [
        [option.name, option.short or None, None, option.help]
        for option in SERVE if option.kind and option.assigns is None
    ]  # fmt: skip
    optFlags: ClassVar[list[list[Any]]] = [[option.name, None, option.help] for option in SERVE if not option.kind]

    #: Twisted finds options by the names of these methods, and takes their help from the docstrings.
    opt_set, opt_port, opt_shard, opt_topology, opt_kubeconfig, opt_context, opt_web_config_file = (
        _opt_method(option) for option in SERVE if option.assigns is not None
    )

    configuration: Configuration
    run: Run

    def __init__(self) -> None:
        super().__init__()
        self["set"] = []

    def opt_version(self) -> None:
        """print the version"""
        sys.stdout.write(f"fakedev {__version__}\n")
        raise SystemExit(0)

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse; an error is one line and exit code 2."""
        try:
            super().parseOptions(options)
        except UsageError as error:
            sys.stderr.write(f"fakedev: {error}; --help lists the options\n")
            raise SystemExit(2) from None

    def parseArgs(self, *operands: str) -> None:
        """Refuse operands: there are none."""
        if operands:
            raise UsageError(f"unexpected {operands[0]!r}")

    def postOptions(self) -> None:
        """Load the configuration; its errors are all printed, and end the program with 2."""
        order = order_of(self)
        self.configuration, self.run = order.configuration, order.run
