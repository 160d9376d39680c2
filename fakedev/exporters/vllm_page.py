"""The page of a cluster's inference engines, with the names of vLLM, for /cluster/vllm.

vLLM's own page is of one engine; here each series has `namespace` and `pod` as well, as Prometheus adds them to the
pods that it finds in Kubernetes. Counts are whole numbers, as vLLM counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from fakedev.exporters.labels import escaped
from fakedev.fleet.cluster.serving import HISTOGRAMS, Replica
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.cluster_spec import ServiceKind

#: The replicas that are shown, the oldest first: a page of them is made in ten milliseconds.
MAX_REPLICAS: Final = 100
_TITLES: Final[Mapping[str, str]] = {
    "time_to_first_token": "Histogram of time to first token in seconds.",
    "inter_token_latency": "Histogram of inter-token latency in seconds.",
    "e2e_request_latency": "Histogram of e2e request latency in seconds.",
    "request_queue_time": "Histogram of time spent in WAITING phase for request.",
    "request_prefill_time": "Histogram of time spent in PREFILL phase for request.",
    "request_decode_time": "Histogram of time spent in DECODE phase for request.",
}


def vllm_page(fleet: Fleet, *, openmetrics: bool) -> bytes:
    """The page at the present tick; empty without a cluster that has services."""
    return ("".join(_families(fleet, openmetrics=openmetrics)) + "# EOF\n" * openmetrics).encode()


def _families(fleet: Fleet, *, openmetrics: bool) -> Iterator[str]:
    if fleet.cluster is None or not fleet.cluster.serving.replicas:
        return
    shown = fleet.cluster.serving_replicas()[:MAX_REPLICAS]
    labels = [_labels(replica, kind) for replica, kind in shown]
    replicas = [replica for replica, _ in shown]
    gauges = (
        ("num_requests_running", "Number of requests in model execution batches.", lambda each: round(each.running)),
        ("num_requests_waiting", "Number of requests waiting to be processed.", lambda each: round(each.waiting)),
        ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", lambda each: each.cache),
    )
    for name, title, value in gauges:
        yield _head(name, "gauge", title)
        yield from (f"vllm:{name}{{{text}}} {value(each)!r}\n" for each, text in zip(replicas, labels, strict=True))
    counters = (
        ("prompt_tokens", "Number of prefill tokens processed.", "", "prompt_tokens"),
        ("generation_tokens", "Number of generation tokens processed.", "", "generation_tokens"),
        ("request_success", "Count of successfully processed requests.", ',finished_reason="stop"', "finished"),
        ("request_success", "", ',finished_reason="abort"', "aborted"),
    )
    for name, title, more, total in counters:
        if title:
            yield _head(name if openmetrics else f"{name}_total", "counter", title)
        for each, text in zip(replicas, labels, strict=True):
            yield f"vllm:{name}_total{{{text}{more}}} {math.floor(each.totals[total])}\n"
    for name, ends in HISTOGRAMS.items():
        yield _head(f"{name}_seconds", "histogram", _TITLES[name])
        for each, text in zip(replicas, labels, strict=True):
            yield from _histogram(f"vllm:{name}_seconds", text, ends, each.buckets[name].tolist(), each.sums[name])


def _head(name: str, kind: str, title: str) -> str:
    return f"# HELP vllm:{name} {title}\n# TYPE vllm:{name} {kind}\n"


def _histogram(name: str, labels: str, ends: Iterable[float], counts: list[float], total: float) -> Iterator[str]:
    sums = [math.floor(sum_so_far) for sum_so_far in accumulate(counts)]
    for end, count in zip((*map(repr, ends), "+Inf"), sums, strict=True):
        yield f'{name}_bucket{{{labels},le="{end}"}} {count}\n'
    yield f"{name}_count{{{labels}}} {sums[-1]}\n{name}_sum{{{labels}}} {total!r}\n"


def _labels(replica: Replica, kind: ServiceKind) -> str:
    named = {
        "model_name": kind.model, "engine": "0", "namespace": kind.workload.namespace, "pod": replica.job,
    }  # fmt: skip
    return ",".join(f'{name}="{escaped(value)}"' for name, value in named.items())
