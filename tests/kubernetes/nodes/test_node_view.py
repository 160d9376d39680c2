"""What the service and fakedev-node write to each other, in JSON and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.base.errors import FieldError
from fakedev.kubernetes.nodes.node_view import (
    Allocation,
    Answer,
    NodeView,
    Notice,
    PreparedDevice,
    Refusal,
    ViewedSlot,
    allocations_from,
    parse_node_message,
    prepared_from,
    report_parts,
    to_fields,
    view_from,
)
from fakedev.lines.framing import MAX_BYTES
from fakedev.lines.grammar import ProtocolError
from fakedev.queues.messages import encode_request

TEXTS = st.text(min_size=1, max_size=8)
SLOTS = st.builds(ViewedSlot, TEXTS, st.none() | st.integers(0, 9), st.just("") | TEXTS)
VIEWS = st.builds(
    NodeView,
    TEXTS,
    st.dictionaries(TEXTS, st.lists(SLOTS, max_size=3).map(tuple), max_size=3),
    st.booleans(),
    st.just("") | TEXTS,
)
ALLOCATIONS = st.builds(
    Allocation, TEXTS, TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=3).map(tuple), st.just("") | TEXTS, st.just("")
)


@given(VIEWS)
def test_views_survive_the_way(view: NodeView) -> None:
    assert view_from(json.loads(json.dumps(to_fields(view)))) == view


@given(st.lists(ALLOCATIONS, max_size=3))
def test_allocations_survive_the_way(allocations: list[Allocation]) -> None:
    assert allocations_from(json.loads(json.dumps([to_fields(each) for each in allocations]))) == allocations


def test_the_fields_of_a_view() -> None:
    view = NodeView("a", {"nvidia.com/gpu": (ViewedSlot("GPU-1", 0), ViewedSlot("GPU-2", None, "XID 79"))}, True, "d")
    assert to_fields(view) == {
        "node": "a",
        "resources": {"nvidia.com/gpu": [{"id": "GPU-1", "numa-node": 0}, {"id": "GPU-2", "unhealthy": "XID 79"}]},
        "plugin-down": True,
        "driver": "d",
    }
    assert to_fields(NodeView("a")) == {"node": "a", "resources": {}}


def test_a_node_of_16_boards_with_10_replicas_fits_a_line() -> None:
    ids = [f"GPU-{number:08x}-1111-2222-3333-444444444444::{replica}" for number in range(16) for replica in range(10)]
    view = NodeView("kind-worker", {"nvidia.com/gpu": tuple(ViewedSlot(each, 1, "XID 79") for each in ids)})
    assert len(json.dumps(to_fields(view))) < 65536
    report = [to_fields(Allocation("default", f"train-{each}", "main", "nvidia.com/gpu", (each,))) for each in ids]
    assert len(json.dumps(report)) < 65536


def test_devices_of_claims() -> None:
    device = PreparedDevice("gpu", "a", "gpu-0")
    assert to_fields(device) == {"request": "gpu", "pool": "a", "device": "gpu-0"}
    assert prepared_from([to_fields(device)]) == [device]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "view: must be an object"),
        ({}, "view.node: missing"),
        ({"node": ""}, "view.node: must be a text that is not empty"),
        ({"node": "a", "resources": []}, "view.resources: must be an object"),
        ({"node": "a", "resources": {"r": {}}}, "view.resources.r: must be a list"),
        ({"node": "a", "resources": {"r": [{}]}}, "view.resources.r[0].id: missing"),
        (
            {"node": "a", "resources": {"r": [{"id": "i", "numa-node": -1}]}},
            "view.resources.r[0].numa-node: must be a whole number of at least 0",
        ),
        (
            {"node": "a", "resources": {"r": [{"id": "i", "numa-node": True}]}},
            "view.resources.r[0].numa-node: must be a whole number of at least 0",
        ),
        ({"node": "a", "plugin-down": 1}, "view.plugin-down: must be true or false"),
        (
            {"node": "a", "nodes": 1},
            "view.nodes: unknown; there are node, resources, plugin-down, driver, claimable, channels",
        ),
    ],
)
def test_a_wrong_view_is_refused(value: object, text: str) -> None:
    with pytest.raises(FieldError) as refused:
        view_from(value)
    assert refused.value.text == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "allocations: must be a list"),
        ([{"namespace": "n"}], "allocations[0].pod: missing"),
        (
            [{"namespace": "n", "pod": "p", "container": "c", "resource": "r", "ids": ["a", 1]}],
            "allocations[0].ids[1]: must be a text that is not empty",
        ),
    ],
)
def test_a_wrong_report_is_refused(value: object, text: str) -> None:
    with pytest.raises(FieldError) as refused:
        allocations_from(value)
    assert refused.value.text == text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id":3,"ok":true,"view":{"node":"a"}}', Answer(3, {"view": {"node": "a"}})),
        (b'{"ok":true}', Answer(None, {})),
        (b'{"event":"changed","view":{}}', Notice("changed", {"view": {}})),
        (b'{"id":3,"ok":false,"error":{"code":"full","message":"no"}}', Refusal(3, "full", "no")),
        (b'{"ok":false,"error":{"code":"denied","message":"no"}}', Refusal(None, "denied", "no")),
        (b"error busy 10000 connections are open", Refusal(None, "busy", "10000 connections are open")),
    ],
)
def test_each_kind(line: bytes, message: object) -> None:
    assert parse_node_message(line) == message


@pytest.mark.parametrize("line", [b"", b"ok", b"[]", b'{"ok":false}', b'{"id":1}', b"HTTP/1.1 400 Bad Request"])
def test_other_protocols_are_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_node_message(line)


@pytest.mark.parametrize("count", [0, 1, 400, 1000])
def test_the_parts_of_a_report_fit_into_lines(count: int) -> None:
    whole = [
        {"namespace": "n" * 60, "pod": f"pod-{number}", "container": "c", "resource": "r", "ids": ["i" * 63]}
        for number in range(count)
    ]
    parts = list(report_parts(whole))
    assert [each for part in parts for each in part["allocations"]] == whole
    assert [part.get("more", False) for part in parts] == [True] * (len(parts) - 1) + [False]
    lines = [encode_request("report", 123456789, part) for part in parts]
    assert max(map(len, lines)) <= MAX_BYTES
    assert len(parts) <= 1 + sum(map(len, map(json.dumps, whole))) // (MAX_BYTES - 1000)
