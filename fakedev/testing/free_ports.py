"""Configurations on free ports: services of tests run side by side, whatever addresses the files have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fakedev.config.configuration import Configuration, WebEndpoint
from fakedev.config.listen import parse_listen
from fakedev.config.scenarios import LoadedScenario
from fakedev.testing.nvml import nvml_file


def on_free_ports(configuration: Configuration, folder: Path) -> Configuration:
    """A configuration with free ports of this machine in place of its addresses, and an HTTP address for the test.

    The last HTTP address is that of the test. Addresses of nodes (``per-node``) stay. Files of the journal, the state
    and reports are not written: two tests could not write them at the same time. That for NVML is in the folder.
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
        nvml=configuration.nvml and replace(configuration.nvml, file=str(nvml_file(folder))),
        journal=None,
        state=None,
        reports=(),
    )  # fmt: skip


def scenario_on_free_ports(scenario: LoadedScenario, folder: Path) -> LoadedScenario:
    """The same of all configurations of a scenario."""
    reads = [each._replace(configuration=on_free_ports(each.configuration, folder)) for each in scenario.configurations]
    return replace(scenario, configurations=tuple(reads))
