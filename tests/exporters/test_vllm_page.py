"""The page of inference engines: the names of vLLM, whole counts, and the same state as the boards."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from fakedev.exporters.vllm_page import vllm_page
from fakedev.fleet.fleet import Fleet
from fakedev.web.paths import VLLM_METRICS
from tests.fleet.cluster.test_serving import service, serving
from tests.support.application import application
from tests.support.fleet.fleets import advance, make_fleet


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    fleet = serving(service(least=2, most=2, requests=30.0))
    advance(fleet, 60)
    return fleet


def test_it_is_read_as_it_is_meant(fleet: Fleet) -> None:
    text = vllm_page(fleet, openmetrics=False).decode()
    families = {each.name: each for each in text_string_to_metric_families(text)}
    assert {each.name for each in openmetrics_families(vllm_page(fleet, openmetrics=True).decode())} == families.keys()
    assert fleet.cluster is not None
    replicas = fleet.cluster.serving.replicas
    for quantity, attribute in (("running", "running"), ("waiting", "waiting")):
        shown = {sample.labels["pod"]: sample.value for sample in families[f"vllm:num_requests_{quantity}"].samples}
        assert shown == {name: round(getattr(replica, attribute)) for name, replica in replicas.items()}
    sample = families["vllm:kv_cache_usage_perc"].samples[0]
    assert sample.labels["model_name"] == "meta-llama/Llama-3.1-70B-Instruct"
    assert (sample.labels["engine"], sample.labels["namespace"]) == ("0", "serving")
    for name in ("time_to_first_token", "inter_token_latency", "e2e_request_latency", "request_queue_time",
                 "request_prefill_time", "request_decode_time"):  # fmt: skip
        buckets = [sample for sample in families[f"vllm:{name}_seconds"].samples if sample.name.endswith("_bucket")]
        counts = [bucket.value for bucket in buckets if bucket.labels["pod"] == next(iter(replicas))]
        assert counts == sorted(counts) and counts[-1] > 0


def test_a_board_has_the_pod_of_its_replica(fleet: Fleet) -> None:
    assert fleet.cluster is not None
    for name, replica in fleet.cluster.serving.replicas.items():
        assert fleet.workloads.by_id[replica.workload_id].spec.pod == name


def test_without_services() -> None:
    assert vllm_page(make_fleet(), openmetrics=False) == b""
    assert vllm_page(make_fleet(), openmetrics=True) == b"# EOF\n"


def test_it_is_served() -> None:
    config = "fleet: {cluster: inference, pools: [{name: p, nodes: 8, device: h100}]}\nweb: ['127.0.0.1:9400']\n"
    with application(f"version: 1\n{config}workloads: {{listen: []}}\n") as app:
        assert b"vllm:num_requests_running{" in app.get(VLLM_METRICS.template).body
