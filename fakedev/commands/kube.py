"""``fakedev kube``: what fakedev would do with a cluster, and the removal of what it did."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import orjson

from fakedev.base.console import tell_notes, write_bytes, write_text
from fakedev.base.errors import FieldError
from fakedev.base.names import node_name
from fakedev.base.units import parse_duration
from fakedev.config.load import load
from fakedev.config.options import configuration_options
from fakedev.fleet.spec.offers import KubernetesSettings
from fakedev.kubernetes.cluster import plan as planned_work
from fakedev.kubernetes.cluster import plan_lines
from fakedev.kubernetes.pods import checked
from fakedev.kubernetes.settings import kubeconfig_paths
from fakedev.schema.files import Files, Unreadable, read_file, read_token
from fakedev.schema.options import Failed, Operand, Option, WrongUsage, command, run_subcommand
from fakedev.schema.places import ConfigurationError, Problem

_COMMANDS: Final = {
    "plan": ("fakedev.commands.kube:plan", "print what would be patched and allocated, from files, without a cluster"),
    "token": ("fakedev.commands.kube:token", "print the token that admits fakedev-node of one node only"),
    "proof": ("fakedev.commands.kube:proof", "print where the faults of DeviceFault objects are visible"),
    "clean": ("fakedev.commands.kube:clean", "remove from the nodes of a cluster all that fakedev wrote to them"),
}


kube: Final = partial(run_subcommand, "fakedev kube", _COMMANDS, joint=" or ")


@command(
    "fakedev kube plan",
    "Prints what fakedev would do with the nodes and pods of files.",
    *configuration_options("it needs a pool with nodes: cluster"),
    Option("nodes", "FILE", "nodes in JSON, as `kubectl get nodes -o json` prints them", is_required=True),
    Option("pods", "FILE", "pods in JSON, as `kubectl get pods -A -o json` prints them"),
    Option("json", "", "print JSON, with the whole patches"),
)
def plan(options: Namespace) -> None:
    """Print what would be done.

    :raises ConfigurationError: when the configuration or a file cannot be used.
    """
    configuration = load(options.config, Files(environ=os.environ), options.set)
    tell_notes(configuration.notes)
    if not any(pool.has_cluster_nodes for pool in configuration.fleet.pools):
        text = "no pool has the nodes of a cluster: give one nodes: cluster"
        raise ConfigurationError([Problem(options.config or "the demo", 0, f"{text} (--config FILE)")])
    settings = configuration.kubernetes.settings if configuration.kubernetes is not None else KubernetesSettings()
    nodes = _objects(options.nodes, "Node")
    pods = _objects(options.pods, "Pod") if options.pods else []
    planned = planned_work(settings, configuration.fleet, nodes, pods)
    if options.json:
        write_bytes(sys.stdout, orjson.dumps(planned, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    else:
        write_text(sys.stdout, "".join(f"{line}\n" for line in plan_lines(planned)))


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


_CONNECTION: Final = (
    Option("kubeconfig", "FILE", "default: KUBECONFIG, else the service account of this pod", ""),
    Option("context", "NAME", "context of the kubeconfig; default: its current one", ""),
)


def _settings(options: Namespace, namespace: str = "") -> KubernetesSettings:
    """How the API server is reached.

    :raises WrongUsage: for a context of no kubeconfig.
    """
    if options.context and not kubeconfig_paths(options.kubeconfig, os.environ):
        raise WrongUsage("--context is of a kubeconfig: give --kubeconfig too, or set KUBECONFIG")
    kubeconfig = os.path.abspath(options.kubeconfig) if options.kubeconfig else ""
    return KubernetesSettings(kubeconfig=kubeconfig, context=options.context, namespace=namespace)


def _show(text: str) -> None:
    write_text(sys.stdout, f"{text}\n")


@command(
    "fakedev kube proof",
    "Prints a table of the faults of DeviceFault objects: how many devices each should affect, and how many show it in "
    "the state, on pages, in NVML, in the node's status and as Events. The exit code is 1 when one does not show it.",
    *_CONNECTION,
    Option("wait", "DURATION", "maximum wait until all devices show their faults", 0.0, parse=parse_duration),
)
def proof(options: Namespace) -> int:
    """Print the table."""
    settings = _settings(options)
    from fakedev.kubernetes.cleaning import prove_faults  # noqa: PLC0415 - plan needs no reactor

    return prove_faults(settings, _show, wait_seconds=options.wait)


@command(
    "fakedev kube clean",
    "Removes what fakedev wrote to nodes (labels, resources, annotations, taints) and pods (an annotation), its "
    "ResourceSlices, ConfigMaps and Leases. Stop fakedev first: it would write them again.",
    *_CONNECTION,
    Option("namespace", "NAME", "namespace of the Leases and ConfigMaps; default: this pod's, or the context's", ""),
    Option("selector", "LABELS", "only nodes with these labels, e.g. fakedev/pool=h100; their pods and slices", ""),
    Option("dry-run", "", "only print what would be removed"),
)
def clean(options: Namespace) -> int:
    """Clean the cluster; the exit code is 1 when it cannot be reached or refuses."""
    settings = _settings(options, options.namespace)
    from fakedev.kubernetes.cleaning import clean_cluster  # noqa: PLC0415 - plan needs no reactor

    return clean_cluster(settings, _show, is_dry=options.dry_run, selector=options.selector)


@command(
    "fakedev kube token",
    "Prints a token that admits fakedev-node of one node only. It changes with the token of the node port.",
    Operand("node", "NODE", "the node", parse=node_name),
    Option("token-file", "FILE", "the token of the node port (token-files: of its address)", is_required=True),
)
def token(options: Namespace) -> None:
    """Print the token.

    :raises Failed: when the file has none.
    """
    from fakedev.lines.tokens import token_of  # noqa: PLC0415 - plan needs no reactor

    try:
        write_text(sys.stdout, f"{token_of(options.node, read_token(options.token_file))}\n")
    except ValueError as error:
        raise Failed(str(error), 2) from None
