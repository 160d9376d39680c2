"""Configurations on free ports: services of tests run side by side, whatever addresses the files have."""

from __future__ import annotations

from dataclasses import replace

from fakedev.config.configuration import Configuration, WebEndpoint
from fakedev.config.listen import parse_listen
from fakedev.config.scenarios import LoadedScenario
from fakedev.spec.record_head import RecordHead


def on_free_ports(configuration: Configuration) -> Configuration:
    """A configuration with free ports of this machine in place of its addresses, and an HTTP address for the test.

    The last HTTP address is that of the test. Addresses of nodes (``per-node``) stay. Files of the journal and of
    reports are not written: two tests could not write them at the same time.
    """
    free = parse_listen("127.0.0.1:0")
    web = [each if each.per_node else replace(each, listen=free) for each in configuration.web]
    workloads, queues, cluster = configuration.workloads, configuration.queues, configuration.kubernetes
    return replace(
        configuration,
        web=(*web, WebEndpoint(free)),
        workloads=replace(workloads, listen=tuple(replace(each, listen=free) for each in workloads.listen)),
        queues=queues and replace(
            queues,
            clients=tuple(replace(each, listen=free) for each in queues.clients),
            backends=tuple(replace(each, listen=free) for each in queues.backends),
        ),
        kubernetes=cluster and replace(cluster, listen=tuple(replace(each, listen=free) for each in cluster.listen)),
        journal=None,
        reports=(),
    )  # fmt: skip


def again_on_free_ports(configuration: Configuration, head: RecordHead) -> tuple[Configuration, RecordHead]:
    """The same of what a reload has read."""
    return on_free_ports(configuration), head


def scenario_on_free_ports(scenario: LoadedScenario) -> LoadedScenario:
    """The same of all configurations of a scenario."""
    reads = [each._replace(configuration=on_free_ports(each.configuration)) for each in scenario.configurations]
    return replace(scenario, configurations=tuple(reads))
