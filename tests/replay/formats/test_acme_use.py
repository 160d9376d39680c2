"""The series of Acme: a column for each GPU, a line every 15 s, usage and memory in tables of their own."""

from __future__ import annotations

import pytest

from fakedev.replay.formats.acme_use import MEMORY, USAGE, read_acme_use
from fakedev.replay.table_reader import TraceProblems
from fakedev.replay.trace import TraceNode, Window
from tests.support.trace_files import MadeFolder

_FILES = {
    USAGE: (
        "Time,172.31.15.112-1,172.31.15.113-0\n2023-07-01 08:00:00+08:00,50,\n2023-07-01 08:00:15+08:00,99.5,0\n"
        "2023-07-01 08:00:30+08:00,,7\n2023-07-01 08:00:45+08:00,3,7\n"
    ),
    MEMORY: "Time,172.31.15.112-1\n2023-07-01 00:00:00,1024\n2023-07-01 00:00:40,81559.0\n",
}


def test_each_gpu_is_a_job_at_its_place_with_its_usage_and_memory() -> None:
    """A value that is not there is counted; the one before holds. Memory is that of the same instant."""
    trace = read_acme_use(MadeFolder(_FILES))
    found = [(job.name, job.start_seconds, job.node, job.indices, job.models, job.series) for job in trace.jobs]
    assert found == [
        (name, start, name[:-2], (int(name[-1]),), ("A100",), name)
        for name, start in (("172.31.15.112-1", 0), ("172.31.15.113-0", 15))
    ]
    assert trace.nodes == [TraceNode("172.31.15.112", "A100", 2), TraceNode("172.31.15.113", "A100", 1)]
    first, second = trace.series.values()
    assert (first.seconds.tolist(), first.usage.tolist()) == ([0, 15, 45], [50, 99.5, 3])
    assert first.memory_bytes is not None
    assert (first.memory_bytes / 2**20).tolist() == [1024, 1024, 81559]
    assert (second.usage.tolist(), second.memory_bytes) == ([0, 7, 7], None)
    assert trace.left_out == {"values of a GPU that are not there: the value before holds": 2}


def test_lines_outside_of_the_window_are_passed_over() -> None:
    """A minute before it is kept, whose value may hold at its begin."""
    late = "2023-07-02 08:00:00+08:00,this is not read,0\n"
    trace = read_acme_use(MadeFolder({USAGE: _FILES[USAGE] + late}, window=Window(80.0, 90.0)))
    assert trace.series["172.31.15.112-1"].seconds.tolist() == [45]


def test_a_column_that_is_no_gpu_is_refused() -> None:
    with pytest.raises(TraceProblems, match=r"GPU_UTIL.csv:1: the column '10\.140\.1\.10' is no GPU, as 172"):
        read_acme_use(MadeFolder({USAGE: "Time,10.140.1.10\n"}))
