"""``fakedev prometheus``: prints the configuration of a Prometheus that scrapes all that a configuration serves."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import yaml

from fakedev.app.configuration_options import add_configuration_options
from fakedev.commands.console import tell_notes, write_text
from fakedev.commands.parser import Parser
from fakedev.commands.sd import target_of_option
from fakedev.config.configuration import Configuration, WebEndpoint
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.spec.units import parse_duration
from fakedev.spec.web_config import WebConfig
from fakedev.spec.web_paths import DISCOVERY, METRICS, OWN_METRICS, QUEUE_METRICS, WORKLOAD_METRICS

_PROGRAM: Final = "fakedev prometheus"
_HEAD: Final = "# Made by: fakedev prometheus. Everything that it scrapes is simulated.\n"


def prometheus(arguments: Sequence[str]) -> int:
    """Print the configuration.

    :returns: 0; 1 when Prometheus can reach nothing of the configuration, or options are missing for it.
    :raises ConfigurationError: when the configuration cannot be used.
    """
    parser = Parser(_PROGRAM, description=__doc__)
    add_configuration_options(parser, "without one the demo")
    parser.add_argument("--interval", metavar="TIME", default="15s", help="between two scrapes; default 15s")
    parser.add_argument(
        "--target", type=target_of_option, metavar="HOST:PORT", help="fakedev's address; default: the first of web",
    )  # fmt: skip
    parser.add_argument("--rules", metavar="FILE", action="append", default=[], help="a rule file; may be repeated")
    parser.add_argument("--ca-file", metavar="FILE", help="the authority that has signed the certificate of an address")
    parser.add_argument("--user", metavar="NAME", help="for an address with passwords")
    parser.add_argument("--password-file", metavar="FILE", help="the password of --user")
    options = parser.parse_args(list(arguments))
    try:
        if parse_duration(options.interval) <= 0:
            raise ValueError("must be above 0")
    except ValueError as error:
        parser.error(f"--interval: {error}")
    configuration = load(options.config, Files(environ=os.environ), options.set)
    tell_notes(configuration.notes)
    try:
        tree = prometheus_tree(configuration, options)
    except ValueError as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 1
    write_text(sys.stdout, _HEAD + yaml.safe_dump(tree, sort_keys=False, width=120))
    return 0


def prometheus_tree(configuration: Configuration, options: argparse.Namespace) -> dict[str, Any]:
    """The configuration of a Prometheus beside the service, as a tree.

    :raises ValueError: when no address can be scraped, or it needs more than is given.
    """
    endpoints = [each for each in configuration.web if not each.listen.path and each.listen.port]
    full = next((each for each in endpoints if each.serve != "exporter"), None)
    chosen = full or next(iter(endpoints), None)
    if chosen is None:
        raise ValueError("Prometheus reaches no UNIX sockets, and no ports of other forms: give web an address as 9400")
    access = _access(chosen, options)
    address = options.target or chosen.listen.display.replace("*", "127.0.0.1")
    jobs: list[dict[str, Any]] = []
    if full is None:
        jobs.append({"job_name": "gpus", **access, "static_configs": [{"targets": [address]}]})
    else:
        scheme = access.get("scheme", "http")
        url = f"{scheme}://{address}{DISCOVERY.template}"
        discovery = {"url": url, "refresh_interval": options.interval, **_without_scheme(access)}
        jobs.append({"job_name": "gpus", **access, "http_sd_configs": [discovery]})
        pages = {"fakedev": OWN_METRICS, "fakedev-workloads": WORKLOAD_METRICS}
        if configuration.queues is not None:
            pages["fakedev-queues"] = QUEUE_METRICS
        if full.serve == "all":
            jobs += [
                {"job_name": name, "metrics_path": page.template, **access, "static_configs": [{"targets": [address]}]}
                for name, page in pages.items()
            ]
    jobs += [
        {
            "job_name": f"gpus-{page.path.strip('/').replace('/', '-')}", "metrics_path": page.path, **access,
            "static_configs": [{"targets": [address]}],
        }
        for page in chosen.pages
        if page.path != METRICS.template
    ]  # fmt: skip
    interval = options.interval
    top: dict[str, Any] = {"global": {"scrape_interval": interval, "evaluation_interval": interval}}
    if options.rules:
        top["rule_files"] = options.rules
    return {**top, "scrape_configs": jobs}


def _without_scheme(access: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in access.items() if key != "scheme"}


def _access(endpoint: WebEndpoint, options: argparse.Namespace) -> dict[str, Any]:
    """How Prometheus gets to an address: TLS, a password.

    :raises ValueError: when it needs more than is given.
    """
    config = endpoint.web_config.read() if endpoint.web_config is not None else WebConfig()
    found: dict[str, Any] = {}
    if config.tls is not None:
        if options.ca_file is None:
            raise ValueError(f"{endpoint.listen.display} has TLS: give --ca-file FILE, which signed its certificate")
        found = {"scheme": "https", "tls_config": {"ca_file": options.ca_file}}
    if config.users:
        if options.user not in config.users or options.password_file is None:
            text = f"{endpoint.listen.display} has passwords: give --user NAME and --password-file FILE"
            raise ValueError(f"{text}; its users are {', '.join(config.users)}")
        found["basic_auth"] = {"username": options.user, "password_file": options.password_file}
    return found
