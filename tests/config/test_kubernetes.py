"""The section ``kubernetes`` and pools whose nodes come from a cluster."""

from __future__ import annotations

import pytest

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import ConfigurationError
from fakedev.spec.kubernetes import InCluster, MigStrategy, Recovery, Resources, Struck

POOL = "fleet: {pools: [{name: gpu, nodes: cluster, device: h100%s}]}\n"


def loaded(text: str) -> Configuration:
    """The configuration of a text."""
    return load(None, Files(environ={}), [], text)


def problems(text: str) -> str:
    """What is wrong with a text."""
    with pytest.raises(ConfigurationError) as error:
        loaded(text)
    return str(error.value)


def test_a_cluster_gives_the_nodes() -> None:
    """A pool without nodes, to begin with; the section's defaults are those of a pod in the cluster."""
    configuration = loaded(POOL % "" + "kubernetes: {}\n")
    (pool,) = configuration.fleet.pools
    assert pool.has_cluster_nodes
    assert pool.nodes == ()
    assert configuration.kubernetes is not None
    settings = configuration.kubernetes.settings
    assert (settings.node_label, settings.utilization, settings.kubeconfig) == ("fakedev/pool", (80.0, 100.0), "")
    assert configuration.kubernetes.listen == ()


def test_all_keys() -> None:
    """Each key sets what it names."""
    configuration = loaded(
        POOL % ", sharing: {replicas: 4, rename: true}, mig-strategy: mixed"
        + """
kubernetes:
  nodes: {label: example.com/pool}
  pods: {utilization: "10-30", struck: evict}
  resources: both
  recovery: vendor
  requests-per-second: 5
  compatibility: fake-gpu-operator
  kubeconfig: /home/me/.kube/config
  context: kind
  namespace: gpu-operator
  listen: [{listen: "*:9998", tokens: [a-long-secret]}]
"""
    )
    assert configuration.fleet.pools[0].in_cluster == InCluster(4, True, MigStrategy.MIXED)
    assert configuration.kubernetes is not None
    settings = configuration.kubernetes.settings
    assert settings.node_label == "example.com/pool"
    assert settings.utilization == (10.0, 30.0)
    assert (settings.struck, settings.resources, settings.recovery) == (Struck.EVICT, Resources.BOTH, Recovery.VENDOR)
    assert (settings.requests_per_second, settings.is_compatible) == (5.0, True)
    assert (settings.kubeconfig, settings.context) == ("/home/me/.kube/config", "kind")
    assert settings.namespace == "gpu-operator"
    assert configuration.kubernetes.listen[0].tokens == ("a-long-secret",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (POOL % "", "there is no cluster: give the section kubernetes:"),
        ("kubernetes: {}\n", "no pool has the nodes of the cluster that kubernetes (or --kubeconfig) names"),
        (POOL % ", profile: training" + "kubernetes: {}\n", "profile: the nodes come from the cluster"),
        (POOL % ", churn: {rate: 1/h}" + "kubernetes: {}\n", "churn: the nodes come from the cluster"),
        (POOL % "" + "kubernetes: {context: kind}\n", "kubernetes.context: is of a kubeconfig"),
        (POOL % "" + "kubernetes: {nodes: {label: a b}}\n", "'a b' is no name of a label, as fakedev/pool"),
        (POOL % "" + "kubernetes: {pods: {utilization: 100-80}}\n", "'100-80' is no range of percentages"),
        (POOL % "" + "kubernetes: {pods: {utilization: 50-101}}\n", "is no range of percentages"),
        (POOL % "" + "kubernetes: {namespace: Blue}\n", "'Blue' is no name in Kubernetes"),
        (POOL % "" + "kubernetes: {listen: ['*:9998']}\n", "lets other machines report the devices of pods"),
        (POOL % "" + "kubernetes: {}\nweb: [{per-node: 127.64.0.0/16:9400}]\n", "have no addresses here"),
        (POOL % ", sharing: {replicas: 0}" + "kubernetes: {}\n", "replicas: 0 is not within 1 to 100"),
        (POOL % "" + "kubernetes: {resourcess: dra}\n", "did you mean 'resources'?"),
    ],
)
def test_mistakes(text: str, problem: str) -> None:
    """Each is named, with the remedy."""
    assert problem in problems(text)


def test_a_shard_may_have_no_node_yet() -> None:
    """Nodes are dealt to shards by their names, when they come."""
    text = POOL.replace("fleet: {", "fleet: {shard: 1/4, ") % "" + "kubernetes: {}\n"
    assert loaded(text).fleet.shard is not None
