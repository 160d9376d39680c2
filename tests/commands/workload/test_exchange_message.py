"""The request of fakedev-workload on the wire, as our server and the original's read it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from fakedev.commands.workload.exchange import beyond_the_original, run_message, unknown_to_the_original
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.fleet.spec.workload_spec import Activity, WorkloadSpec
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR
from fakedev.lines.json_lines import parse_json_line
from tests.support.fleet.workload_orders import order, read_by_the_original

numbers = st.integers(0, 100).flatmap(
    lambda load: st.tuples(st.just(load), st.integers(0, min(load, 100 - load)), st.integers(1, 10**6))
)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    lambda text: text == text.strip() and "," not in text
)


@given(names, st.lists(numbers, min_size=1, max_size=5), st.lists(names, min_size=1, max_size=5), st.integers(0, 9))
def test_one_message_for_both_servers(
    name: str, activities: list[tuple[int, int, int]], devices: list[str], repeat: int
) -> None:
    """Whatever the workload, both servers read the same bytes as just this workload."""
    workload = WorkloadSpec(name, tuple(devices), tuple(Activity(*map(float, a)) for a in activities), repeat, pod="p")
    message = run_message(workload)
    assert message.endswith(b"}\n")
    assert message.count(b"\n") == 1
    fields = json.loads(message)
    assert (fields.pop("op"), fields.pop("id")) == ("run", 1)
    assert workload_from_fields(fields) == workload
    seen = read_by_the_original(message)
    assert (seen is None) == bool(beyond_the_original(workload, message))
    if seen is not None:
        assert (seen["Name"], seen["Repeat"], seen["Devices"]) == (name, repeat, devices)
        assert seen["Profile"] == activities


def test_the_message_is_compact() -> None:
    """Just these bytes: zeros and empty fields are left out, but for the repeat, where 0 has a meaning."""
    assert order("-devnames", "card0", "-repeat", "0").message == (
        b'{"op":"run","id":1,"name":"Workload","repeat":0,"profile":[{"load":98,"fluctuation":1}],"devices":["card0"]}\n'
    )


def test_all_fields_reach_the_server() -> None:
    """Our server reads back the workload with its pod, limits and run-time limit."""
    asked = order("-node=n", "-pod=p", "-namespace=s", "-container=c", "-limit=memory=1GiB", "-runtime-limit=1.5")
    request = parse_json_line(asked.message.rstrip(), WORKLOAD_GRAMMAR)
    assert request.verb == "run"
    assert workload_from_fields(request.arguments) == asked.workload
    assert unknown_to_the_original(asked.workload) == ["limits", "run-time limit", "node", "pod"]


def test_functions_and_metrics_reach_the_server() -> None:
    """Typed as on the port; what the file says wins; the original would take none of it."""
    profile = "-activity=ramp(5,90):5:60:1.5:once,steps(10,40):0:9"
    arguments = ("-intensity=45:5,30", profile, "-use", "memory=sine(50%,30%,90s)", "-use=pcie-tx=1GB/s")
    text = '{"metrics": {"memory": "40GiB"}, "measured-frequency": 990}'
    asked = order(*arguments, "-json=f", "-measured-capability=2", texts={"f": text})
    request = parse_json_line(asked.message.rstrip(), WORKLOAD_GRAMMAR)
    assert workload_from_fields(request.arguments) == asked.workload
    assert [(use.metric, tuple(use.activities)) for use in asked.workload.uses] == [
        ("memory_used_bytes", (Activity(40 * 2**30),)),
        ("pcie_tx_bytes_per_second", (Activity(1e9),)),
    ]
    assert (asked.workload.measured_frequency_mhz, asked.workload.measured_capability) == (990, 2)
    assert beyond_the_original(asked.workload, asked.message) == [
        "its loads change within an activity, and the original takes numbers"
    ]
    assert unknown_to_the_original(asked.workload) == [
        "metrics", "scaling", "drawn lengths", "activities that run once", "intensity",
    ]  # fmt: skip
    assert read_by_the_original(asked.message) is None


def test_what_the_original_would_refuse_is_known() -> None:
    """1024 bytes are its limit, to the byte and with the newline; and it takes no fractions."""
    short = order("-devnames", "card0", "-name", "x")
    room = 1024 - len(short.message)
    fits = order("-devnames", "card0", "-name", "x" * (room + 1))
    assert len(fits.message) == 1024
    assert beyond_the_original(fits.workload, fits.message) == []
    longer = order("-devnames", "card0", "-name", "x" * room, "-repeat", "10")
    assert len(longer.message) == 1024
    over = order("-devnames", "card0", "-name", "x" * (room + 1), "-repeat", "10")
    assert "1025 bytes" in beyond_the_original(over.workload, over.message)[0]
    fraction = order("-activity", "10:1:1.5")
    assert "fractions" in beyond_the_original(fraction.workload, fraction.message)[0]
    assert read_by_the_original(over.message) is read_by_the_original(fraction.message) is None
