"""``fakedev prometheus`` prints the configuration of a Prometheus, ``fakedev sd`` the nodes as its targets."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

import yaml

from fakedev.base.atomic_files import replace_file
from fakedev.base.console import restored_after_interrupt, tell_notes, write_text
from fakedev.base.errors import did_you_mean
from fakedev.base.units import parse_duration
from fakedev.config.configuration import Configuration, WebEndpoint
from fakedev.config.load import load
from fakedev.config.options import configuration_options, serve_options
from fakedev.exporters.discovery import targets_of
from fakedev.fleet.entities.roster import Roster
from fakedev.runtime.tls_settings import WebConfig
from fakedev.schema.files import Files
from fakedev.schema.options import Failed, Option, WrongUsage, command
from fakedev.web.paths import DISCOVERY, METRICS, OWN_METRICS, QUEUE_METRICS, WORKLOAD_METRICS

_PROGRAM: Final = "fakedev prometheus"
_SHOWN_POOLS: Final = 10
_HEAD: Final = "# Made by: fakedev prometheus. Everything that it scrapes is simulated.\n"


def target_of_option(text: str) -> str:
    """A target as Prometheus takes it.

    :raises ValueError: for one for which Prometheus would refuse the whole file.
    """
    if not text or "/" in text or not text.isprintable() or " " in text:
        raise ValueError(f"{text[:60]!r} is no HOST:PORT: without http:// and without a path")
    _, colon, port = text.rpartition(":")
    if colon and not text.endswith("]") and not (port.isdecimal() and 1 <= int(port) <= 65535):
        raise ValueError(f"{text[:60]!r}: {port[:20]!r} is no port: from 1 to 65535")
    return text


@command(
    _PROGRAM,
    "Prints the configuration of a Prometheus that scrapes all that a configuration serves.",
    *configuration_options("without one the demo"),
    *serve_options("web-config-file"),
    Option("interval", "TIME", "time between two scrapes; default 15s", "15s"),
    Option("target", "HOST:PORT", "fakedev's address; default: the first of web", parse=target_of_option),
    Option("rules", "FILE", "a rule file; may be repeated", is_repeated=True),
    Option("ca-file", "FILE", "CA certificates (PEM) for addresses with TLS"),
    Option("user", "NAME", "user of addresses with passwords"),
    Option("password-file", "FILE", "file with the password of --user"),
)
def prometheus(options: Namespace) -> None:
    """Print the configuration.

    :raises ConfigurationError: when the configuration cannot be used.
    """
    try:
        if parse_duration(options.interval) <= 0:
            raise ValueError("must be above 0")
    except ValueError as error:
        raise WrongUsage(f"--interval: {error}") from None
    configuration = load(options.config, Files(environ=os.environ), options.set)
    tell_notes(configuration.notes)
    tree = prometheus_tree(configuration, options)
    write_text(sys.stdout, _HEAD + yaml.safe_dump(tree, sort_keys=False, width=120))


def prometheus_tree(configuration: Configuration, options: Namespace) -> dict[str, Any]:
    """The configuration of a Prometheus beside the service, as a tree.

    :raises Failed: when no address can be scraped, or it needs more than is given.
    """
    endpoints = [endpoint for endpoint in configuration.web if not endpoint.listen.path and endpoint.listen.port]
    full = next((endpoint for endpoint in endpoints if endpoint.serve != "exporter"), None)
    chosen = full or next(iter(endpoints), None)
    if chosen is None:
        raise Failed("Prometheus reaches no UNIX sockets, and no ports of other forms: give web an address as 9400")
    access = _access(chosen, options)
    address = options.target or chosen.listen.display.replace("*", "127.0.0.1")
    jobs: list[dict[str, Any]] = []
    if full is None:
        jobs.append({"job_name": "gpus", **access, "static_configs": [{"targets": [address]}]})
    else:
        scheme = access.get("scheme", "http")
        url = f"{scheme}://{address}{DISCOVERY.template}"
        discovery = {"url": url, "refresh_interval": options.interval, **access}
        discovery.pop("scheme", None)
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


def _access(endpoint: WebEndpoint, options: Namespace) -> dict[str, Any]:
    """How Prometheus gets to an address: TLS, a password.

    :raises Failed: when it needs more than is given.
    """
    config = endpoint.web_config.read() if endpoint.web_config is not None else WebConfig()
    found: dict[str, Any] = {}
    if config.tls is not None:
        if options.ca_file is None:
            raise Failed(f"{endpoint.listen.display} has TLS: give --ca-file FILE, which signed its certificate")
        found = {"scheme": "https", "tls_config": {"ca_file": options.ca_file}}
    if config.users:
        if options.user not in config.users or options.password_file is None:
            text = f"{endpoint.listen.display} has passwords: give --user NAME and --password-file FILE"
            raise Failed(f"{text}; its users are {', '.join(config.users)}")
        found["basic_auth"] = {"username": options.user, "password_file": options.password_file}
    return found


@command(
    "fakedev sd",
    "Prints the nodes of a configuration as targets, for Prometheus' file_sd_configs.",
    *configuration_options("without one the demo"),
    Option("pool", "NAME", "only the nodes of this pool"),
    Option("target", "HOST:PORT", "the address of fakedev, default 127.0.0.1:9400", "127.0.0.1:9400", target_of_option),
    Option("output", "FILE", "write to this file, in one step, instead of printing", short="o"),
)
def discover(options: Namespace) -> None:
    """Print the targets, or write them to a file.

    :raises ConfigurationError: when the configuration cannot be used.
    """
    configuration = load(options.config, Files(environ=os.environ), options.set)
    tell_notes(configuration.notes)
    fleet = configuration.fleet
    if options.pool is not None and options.pool not in {pool.name for pool in fleet.pools}:
        names = [pool.name for pool in fleet.pools]
        hint = did_you_mean(options.pool, names, f"; there is {', '.join(names[:_SHOWN_POOLS])}")
        raise Failed(f"no pool {options.pool!r}{hint}", 2)
    targets = targets_of(Roster(fleet.pools), options.pool or "", fleet.shard, options.target)
    text = json.dumps(list(targets), indent=1) + "\n"
    if options.output is None:
        write_text(sys.stdout, text, is_document=True)
        return
    with restored_after_interrupt():
        # Prometheus watches the file, and must not read a part of it. It may run as another user.
        replace_file(Path(options.output), text.encode("utf-8"), 0o644)
