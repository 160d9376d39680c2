"""``fakedev kube``: what fakedev would do with a cluster, and the removal of what it did."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from fakedev.app.configuration_options import add_configuration_options
from fakedev.commands.console import tell_notes
from fakedev.commands.parser import Parser, unknown_subcommand
from fakedev.config.load import load
from fakedev.config.schema.files import Files, Unreadable, read_file
from fakedev.config.schema.nodes import ConfigurationError, Problem
from fakedev.kube.object_forms import checked
from fakedev.kube.plan import plan, plan_lines
from fakedev.spec.errors import FieldError
from fakedev.spec.kubernetes import KubernetesSettings

_COMMANDS: Final = {
    "plan": "print what would be patched and allocated, from files, without a cluster",
    "clean": "remove from the nodes of a cluster all that fakedev wrote to them",
}
_DOC: Final = "\n".join(["Each subcommand has --help:", *(f"  {name:6} {text}" for name, text in _COMMANDS.items())])


def kube(arguments: Sequence[str]) -> int:
    """Run a command about a cluster.

    :returns: 0; 1 when the cluster cannot be reached or refuses; 2 when options or files cannot be used.
    :raises ConfigurationError: when the configuration or a file cannot be used.
    """
    parser = Parser(
        "fakedev kube", usage="fakedev kube SUBCOMMAND [OPTIONS]", description=_DOC, is_formatted=True, add_help=True
    )
    if not arguments or arguments[0].startswith("-"):
        parser.parse_args(list(arguments))
        parser.error(f"give a subcommand: {' or '.join(_COMMANDS)}")
    name, *rest = arguments
    if name == "plan":
        return _plan(rest)
    if name == "clean":
        return _clean(rest)
    return unknown_subcommand("fakedev kube", name, _COMMANDS)


def _plan(arguments: Sequence[str]) -> int:
    parser = Parser("fakedev kube plan", description="Prints what fakedev would do with the nodes and pods of files.")
    add_configuration_options(parser, "it needs a pool with nodes: cluster")
    parser.add_argument(
        "--nodes", required=True, metavar="FILE", help="nodes in JSON, as `kubectl get nodes -o json` prints them"
    )
    parser.add_argument("--pods", metavar="FILE", help="pods in JSON, as `kubectl get pods -A -o json` prints them")
    parser.add_argument("--json", action="store_true", help="print JSON, with the whole patches")
    options = parser.parse_args(list(arguments))
    configuration = load(options.config, Files(environ=os.environ), options.set)
    tell_notes(configuration.notes)
    if not any(pool.has_cluster_nodes for pool in configuration.fleet.pools):
        text = "no pool has the nodes of a cluster: give one nodes: cluster"
        raise ConfigurationError([Problem(options.config or "the demo", 0, f"{text} (--config FILE)")])
    settings = configuration.kubernetes.settings if configuration.kubernetes is not None else KubernetesSettings()
    nodes = _objects(options.nodes, "Node")
    pods = _objects(options.pods, "Pod") if options.pods else []
    planned = plan(settings, configuration.fleet, nodes, pods)
    if options.json:
        sys.stdout.buffer.write(orjson.dumps(planned, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    else:
        sys.stdout.writelines(f"{line}\n" for line in plan_lines(planned))
    return 0


def _objects(path: str, kind: str) -> list[Mapping[str, Any]]:
    """The objects of a kind in a file: a List, or one object.

    :raises ConfigurationError: naming the file, the reason and the remedy.
    """

    def wrong(text: str, line: int = 0) -> ConfigurationError:
        plural = f"{kind.lower()}s"
        return ConfigurationError([Problem(path, line, f"{text}: give the output of `kubectl get {plural} -o json`")])

    try:
        value = orjson.loads(read_file(path))
    except Unreadable as error:
        raise ConfigurationError([Problem(path, error.line, str(error))]) from None
    except orjson.JSONDecodeError as error:
        raise wrong(f"is no JSON: {error.msg}", error.lineno) from None
    items = value.get("items", [value]) if isinstance(value, dict) else None
    if not isinstance(items, list):
        raise wrong("is no object of Kubernetes")
    found: list[Mapping[str, Any]] = []
    for place, item in enumerate(items):
        try:
            found.append(checked(item, kind))
        except FieldError as error:
            raise wrong(f"item {place}: {error.text}") from None
    return found


def _clean(arguments: Sequence[str]) -> int:
    parser = Parser(
        "fakedev kube clean",
        description="Removes what fakedev wrote to nodes (labels, resources, annotations, taints), its ResourceSlices, "
        "ConfigMaps and Leases. Stop fakedev first: it would write them again.",
    )
    parser.add_argument("--kubeconfig", metavar="FILE", default="", help="default: the service account of this pod")
    parser.add_argument("--context", metavar="NAME", default="", help="of the kubeconfig; default: its current one")
    parser.add_argument(
        "--namespace", metavar="NAME", default="",
        help="of the Leases and ConfigMaps; default: that of this pod, or of the context",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    options: argparse.Namespace = parser.parse_args(list(arguments))
    if options.context and not options.kubeconfig:
        parser.error("--context is of a kubeconfig: give --kubeconfig too")
    from fakedev.app.cluster_cleaning import clean_cluster  # noqa: PLC0415 - plan needs no reactor

    kubeconfig = os.path.abspath(options.kubeconfig) if options.kubeconfig else ""
    settings = KubernetesSettings(kubeconfig=kubeconfig, context=options.context, namespace=options.namespace)
    return clean_cluster(settings, print, is_dry=options.dry_run)
