"""The options of the service, and the configuration that they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, ClassVar

from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from fakedev import __version__
from fakedev.base.console import write_text
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.options import SERVE
from fakedev.config.start import read_again, record_head
from fakedev.kubernetes.settings import kubeconfig_paths
from fakedev.schema.files import Files
from fakedev.schema.options import Option
from fakedev.schema.places import ConfigurationError
from fakedev.service.program_run import Run


def requested(given: Mapping[str, Any]) -> tuple[Configuration, Run]:
    """The configuration to serve, and the other options of the run, as the options of SERVE request them.

    :param given: the values by the names of the options.
    :raises SystemExit: when the program has nothing to serve: 2 after all problems of the configuration, 0 after what
        ``--check`` or ``--print-config`` prints.
    """
    scenario = None
    try:
        if given["scenario"]:
            from fakedev.scenario.settings import load_scenario  # noqa: PLC0415 - most runs have none

            scenario = load_scenario(given["scenario"], os.environ, given["config"], given["set"])
            configuration, files, config, overrides = scenario.configurations[0]
        else:
            config, overrides, files = given["config"], tuple(given["set"]), Files(environ=os.environ)
            configuration = load(config, files, overrides)
        if given["print-config"]:
            from fakedev.config.export import effective_text  # noqa: PLC0415 - only then

            write_text(sys.stdout, effective_text(configuration), is_document=True)
            raise SystemExit(0)
        _check_secrets(configuration, with_kubeconfig=given["check"])
    except ConfigurationError as error:
        write_text(sys.stderr, f"{error}\n")
        raise SystemExit(2) from None
    if given["check"]:
        for note in configuration.notes:
            write_text(sys.stderr, f"note: {note}\n")
        topology = configuration.source["topology"] if configuration.topology is not None else ""
        write_text(sys.stdout, f"{topology or given['scenario'] or config or 'the built-in demo'}: good\n")
        raise SystemExit(0)
    head = record_head(configuration, files, config=config, overrides=overrides)
    # twistd changes the working directory when it becomes a daemon.
    record, ready_file = (given[option] and os.path.abspath(given[option]) for option in ("record", "ready-file"))
    again = partial(read_again, config and os.path.abspath(config), overrides, of_scenario=scenario is not None)
    return configuration, Run(head, record or "", ready_file or "", read_again=again, scenario=scenario)


def _check_secrets(configuration: Configuration, *, with_kubeconfig: bool) -> None:
    """Check the files that are no part of the configuration, because they have secrets.

    :raises ConfigurationError: with their problems.
    """
    from fakedev.web.web_configs import read_web_configs  # noqa: PLC0415 - not for a usage error

    read_web_configs(configuration.web_config_sources())
    kubernetes = configuration.kubernetes
    if not with_kubeconfig or kubernetes is None:
        return
    if kubeconfig_paths(kubernetes.settings.kubeconfig, os.environ):
        from fakedev.kubernetes.settings import api_server  # noqa: PLC0415 - only with a cluster

        api_server(kubernetes.settings, os.environ)


def _opt_method(option: Option) -> Callable[[Options, str], None]:
    def opt(options: Options, text: str) -> None:
        assert option.assigns is not None
        try:
            options["set"].append(option.assigns(text))
        except ValueError as error:
            raise UsageError(f"--{option.name}: {error}") from None

    opt.__doc__ = f"{option.kind}: {option.help}"
    return opt


def _choose_pid_file(twistd: MutableMapping[str, Any]) -> None:
    """Switch twistd's pid file off where it does not become a daemon and no option asks for the file.

    In a container the file of a killed process stays, with a number that another process has then, and no restart
    succeeds any more. twistd accepts each beginning of ``--pidfile`` that no other option has.

    :raises SystemExit: 1, with a line of explanation, when a pid file is wanted and cannot be written.
    """
    stays = twistd["nodaemon"] or twistd["debug"]
    if stays and not any(word.startswith("--pi") for word in sys.argv[1:]):
        twistd["pidfile"] = ""
    if not twistd["pidfile"] or twistd["chroot"]:
        return
    path = os.path.abspath(twistd["pidfile"])
    if not os.access(path if os.path.exists(path) else os.path.dirname(path), os.W_OK):
        text = f"fakedev: the pid file {path} cannot be written; give another one, or none: twistd --pidfile="
        raise SystemExit(text)


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
        write_text(sys.stdout, f"fakedev {__version__}\n")
        raise SystemExit(0)

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse; an error is one line and exit code 2."""
        try:
            super().parseOptions(options)
        except UsageError as error:
            write_text(sys.stderr, f"fakedev: {error}; --help lists the options\n")
            raise SystemExit(2) from None

    def parseArgs(self, *operands: str) -> None:
        """Refuse operands: there are none."""
        if operands:
            raise UsageError(f"unexpected {operands[0]!r}")

    def postOptions(self) -> None:
        """Load the configuration; its errors are all printed, and end the program with 2."""
        self.configuration, self.run = requested(self)
        if self.parent is not None:
            _choose_pid_file(self.parent)
