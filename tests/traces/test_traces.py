"""Traces: their tables, what is wrong in them, parts of them, and where jobs run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.traces.job_files import read_job_files
from fakedev.traces.model import Trace, TraceJob, TraceNode, part_of
from fakedev.traces.openb import read_openb
from fakedev.traces.placement import BEST_FIT, FIRST, RULES, SPREAD, Placed, place
from fakedev.traces.scenario_text import UnknownModels, node_list, scenario_text
from fakedev.traces.table import BadTrace, Problems
from tests.support.examples import examples

NODES = b"devices,name,model\n2,a,T4\n4,b,H100\n0,c,none\n"
JOBS = "name,submit,start,end,devices,share,node,model\n"
OPENB_NODES = b"sn,cpu_milli,memory_mib,gpu,model\nn-0,1,1,2,T4\nn-1,1,1,0,\n"
OPENB_PODS = (
    b"name,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"
    b"p-0,1,470,T4|A10,5,90,10\np-1,2,1000,,0,50,1.0\np-2,0,0,,0,50,1\np-3,1,1000,,0,50,\np-4,1,1000,,0,7,7\n"
)


def own(rows: str, problems: Problems | None = None) -> Trace:
    """A trace of our own format with these rows."""
    tables = (("nodes.csv", NODES), ("jobs.csv", (JOBS + rows).encode()))
    return read_job_files(tables, problems or Problems())


def test_openb() -> None:
    """Pods with GPUs that started; a share for a part of one; models that are asked for. Gzip is no matter."""
    for packed in (bytes, gzip.compress):
        trace = read_openb((("n", packed(OPENB_NODES)), ("p", packed(OPENB_PODS))), Problems())
        assert trace.nodes == (TraceNode("n-0", "T4", 2),)
        assert trace.jobs == (
            TraceJob("p-1", 1.0, 50.0, 0.0, 2),
            TraceJob("p-0", 10.0, 90.0, 5.0, 1, 470, ("T4", "A10")),
        )
        assert trace.left_out == {"without a GPU": 1, "never started": 1, "of no length": 1}
        assert trace.models["T4"] == "t4-16gb"


def test_own_format() -> None:
    """Nodes without devices do not count; missing columns have their defaults."""
    trace = own("x,0,5,,1,0.25,a,\ny,NA,7,8,2,,,T4|H100\nz,0,,,1,,,\n")
    assert [node.name for node in trace.nodes] == ["a", "b"]
    assert trace.jobs == (
        TraceJob("x", 5.0, None, 0.0, 1, 250, (), "a"), TraceJob("y", 7.0, 8.0, None, 2, 1000, ("T4", "H100")),
    )  # fmt: skip
    assert trace.left_out == {"never started": 1}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("x,0,9,5,1,,,", "jobs.csv:2: 'x' ends at 5, before its start at 9"),
        ("x,9,5,7,1,,,", "jobs.csv:2: 'x' starts at 5, before it was submitted"),
        ("x,0,-1,5,1,,,", "jobs.csv:2: start: '-1' must be 0 or more"),
        ("x,0,1e999,5,1,,,", "jobs.csv:2: start: '1e999' must be 0 or more"),
        ("x,0,soon,5,1,,,", "jobs.csv:2: start: 'soon' is no number"),
        ("x,0,1,5,NA,,,", "jobs.csv:2: devices: is missing"),
        ("x,0,1,5,1.5,,,", "jobs.csv:2: devices: '1.5' is no whole number"),
        ("x,0,1,5,4294967296,,,", "jobs.csv:2: devices: '4294967296' is more than 1024 devices of a node"),
        ("x,0,1,5,1,1e308,,", "jobs.csv:2: share: '1e308' is no share"),
        ("x,0,1,5,1,2,,", "jobs.csv:2: share: '2' is no share"),
        ("x,0,1,5,1,,q,", "jobs.csv:2: node: 'q' is not in nodes.csv"),
        ("x,0,1,5,1", "jobs.csv:2: has 5 values, and the first line 8 columns"),
        ("x,0,1,5,1,,,\nx,0,1,5,1,,,", "jobs.csv:3: name: 'x' is in line 2 already"),
    ],
)
def test_wrong_rows(row: str, problem: str) -> None:
    """File, line, column and reason; what leaves the row out; with lenience it is left out."""
    with pytest.raises(BadTrace) as caught:
        own(row + "\n")
    assert problem in str(caught.value)
    assert "--lenient 1 leaves these rows out" in str(caught.value)
    problems = Problems(lenient=1)
    own(row + "\n", problems)
    assert problems.rows == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"name,model\n", "n:1: has no column 'devices'"),
        (b"name,name,model,devices\n", "n:1: has the column 'name' 2 times"),
        (b"", "n:1: has no column 'name'"),
        (b"name,model,devices\na,b,1\n\xff,b,1\n", "n:3: is not UTF-8"),
        (b"\x1f\x8bno", "n:1: cannot be unpacked"),
        (b'name,model,devices\n"a\n', "is not CSV"),
    ],
)
def test_no_tables(content: bytes, problem: str) -> None:
    """What cannot be read at all is refused, however lenient."""
    with pytest.raises(BadTrace, match=problem):
        read_job_files((("n", content), ("j", JOBS.encode())), Problems(lenient=9))


@settings(max_examples=examples(100))
@given(st.integers(0, len(OPENB_PODS)), st.binary(max_size=20))
def test_broken_tables(cut: int, put: bytes) -> None:
    """A table that is cut, with bytes put in there, gives a trace or a problem."""
    broken = OPENB_PODS[:cut] + put + OPENB_PODS[cut:]
    for content in (broken, gzip.compress(OPENB_PODS)[:cut] + put):
        try:
            read_openb((("n", OPENB_NODES), ("p", content)), Problems(lenient=3))
        except BadTrace as error:
            assert str(error).startswith("p:")


def test_a_part() -> None:
    """Jobs over the beginning start there, jobs over the end have no end; an empty part is refused."""
    trace = own("x,0,10,30,1,,,\ny,15,20,90,1,,,\nz,0,60,70,1,,,\n")
    part, span = part_of(trace, 20.0, 30.0)
    assert span == 30.0
    assert part.jobs == (TraceJob("x", 0.0, 10.0, -10.0), TraceJob("y", 0.0, None, -5.0))
    assert part_of(trace, 60.0, None)[1] == 30.0
    with pytest.raises(ValueError, match="which ends at 90 s"):
        part_of(trace, 90.0, None)


def placed(rows: str, rule: str = BEST_FIT) -> dict[str, tuple[str, Sequence[int], float]]:
    """Where jobs run, and since when."""
    found = place(own(rows), 100.0, rule).placed
    return {each.job.name: (each.node, each.devices, each.start_seconds) for each in found}


def test_rules_of_placement() -> None:
    """Parts share a board where that leaves least free; spread takes empty ones; first takes the first node."""
    rows = "x,,0,50,1,0.5,,\ny,,1,50,1,0.5,,\nz,,2,50,2,,,\n"
    assert placed(rows) == {"x": ("a", (0,), 0.0), "y": ("a", (0,), 1.0), "z": ("b", (0, 1), 2.0)}
    assert placed(rows, SPREAD)["y"] == ("a", (1,), 1.0)
    assert placed(rows, FIRST)["y"] == ("a", (0,), 1.0)
    assert placed("x,,0,50,1,,b,\ny,,0,50,1,,,H100\n") == {"x": ("b", (0,), 0.0), "y": ("b", (1,), 0.0)}


def test_waiting() -> None:
    """A job without a place starts when another one ends, and takes as long; one that never fits is told."""
    found = place(own("x,,0,50,4,,,\ny,,10,30,4,,,\nz,,20,30,8,,,\n"), 100.0, BEST_FIT)
    assert [(each.job.name, each.start_seconds, each.end_seconds) for each in found.placed] == [
        ("x", 0.0, 50.0), ("y", 50.0, 70.0),
    ]  # fmt: skip
    assert (found.late, [job.name for job in found.without_place], found.peak_devices) == (1, ["z"], 4)


JOB = st.builds(
    lambda start, length, devices, part, model: (start, length, devices, part if devices == 1 else 1000, model),
    st.integers(0, 90), st.integers(1, 60), st.integers(1, 5), st.integers(1, 1000),
    st.sampled_from([(), ("T4",), ("H100",)]),
)  # fmt: skip


@settings(max_examples=examples(100))
@given(st.lists(JOB, max_size=25), st.sampled_from(RULES))
def test_no_device_is_overbooked(rows: list[tuple[int, int, int, int, tuple[str, ...]]], rule: str) -> None:
    """At no time have jobs more than all of a device; each is on its models and on different devices."""
    nodes = (TraceNode("a", "T4", 2), TraceNode("b", "H100", 4))
    jobs = sorted(
        (TraceJob(f"j{number}", start, start + length, None, devices, part, models)
         for number, (start, length, devices, part, models) in enumerate(rows)),
        key=lambda job: job.start_seconds,
    )  # fmt: skip
    found = place(Trace(nodes, tuple(jobs)), 100.0, rule)
    assert len(found.placed) + len(found.without_place) == len(jobs)
    models = {node.name: node.model for node in nodes}
    for each in found.placed:
        assert len(set(each.devices)) == each.job.devices
        assert not each.job.models or models[each.node] in each.job.models
        assert each.start_seconds >= each.job.start_seconds
        assert max(taken_at(found.placed, each).values()) <= 1000


def taken_at(every: Sequence[Placed], start: Placed) -> dict[tuple[str, int], int]:
    """Thousandths of each device that are taken when a job starts."""
    taken: dict[tuple[str, int], int] = {}
    for each in every:
        end = 1e9 if each.end_seconds is None else each.end_seconds
        if each.start_seconds <= start.start_seconds < end:
            for device in each.devices:
                key = (each.node, device)
                taken[key] = taken.get(key, 0) + each.job.thousandths
    return taken


def test_the_files_of_a_scenario() -> None:
    """Models without a device type are all named; loads are shares of the usage; a dollar is no variable."""
    trace = own("$x,,0,50,1,0.5,,\ny,,1,,2,,,\n")
    with pytest.raises(UnknownModels, match="'H100', 'T4': write --map H100=DEVICE,T4=DEVICE"):
        node_list(trace.nodes, {})
    assert node_list(trace.nodes, {"T4": "t4", "H100": "h100"}) == "name,device,count\na,t4,2\nb,h100,4\n"
    jobs = place(trace, 100.0, BEST_FIT).placed
    written = json.loads(scenario_text(jobs, 100.0, 10.0, (60.0, 20.0), 7))
    assert written["config"]["fleet"]["seed"] == 7
    first, second = written["timeline"]
    assert (first["run"]["name"], first["run"]["profile"], first["for"]) == ("$$x", "30:10:0", "50s")
    assert (second["run"]["devices"], "for" in second) == (["b/0", "b/1"], False)
