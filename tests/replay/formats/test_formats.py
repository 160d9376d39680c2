"""Formats of traces: what becomes of their columns, and what is refused with its place."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.replay.formats.gentd26 import MEMORY, USAGE, read_gentd26
from fakedev.replay.formats.openb import NODES, PODS, read_openb
from fakedev.replay.formats.own import JOBS, SERIES, read_own
from fakedev.replay.formats.slurm import HELIOS, HELIOS_GPUS, KALOS, SEREN, read_acme, read_helios
from fakedev.replay.formats.spot import JOBS as SPOT_JOBS
from fakedev.replay.formats.spot import NODES as SPOT_NODES
from fakedev.replay.formats.spot import read_spot
from fakedev.replay.table_reader import MOST_PROBLEMS, TraceProblems
from fakedev.replay.trace import TraceJob, TraceNode, Window, within
from tests.support.trace_files import MadeFolder

_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,1,8,G2\nn1,96000,1,0,\n"
_PODS = "deletion_time,name,num_gpu,gpu_milli,gpu_spec,creation_time,scheduled_time\n"


def problems_of(read: object, texts: dict[str, str], lenient: int = 0) -> tuple[str, ...]:
    assert callable(read)
    with pytest.raises(TraceProblems) as caught:
        read(MadeFolder(texts, lenient))
    return caught.value.problems


def test_openb_takes_columns_in_any_order_and_leaves_out_what_never_had_a_gpu() -> None:
    """A pod without an end runs to the last time of the file; pods without GPUs or a start are counted."""
    pods = _PODS + "100,a,1,470,V100M16|T4,10,20\n,b,2,1000,,10,30\n90,cpu,0,0,,10,20\n90,late,1,1000,,10,\n"
    trace = read_openb(MadeFolder({NODES: _NODES, PODS: pods}))
    assert trace.nodes == [TraceNode("n0", "G2", 8)]
    assert trace.jobs == [
        TraceJob("a", 10, 20, 100, 1, 470, models=("V100M16", "T4")),
        TraceJob("b", 10, 30, 100, 2),
    ]
    assert trace.left_out == {"nodes without GPUs": 1, "pods without GPUs": 1, "pods that never ran": 1}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("90,a,one,1000,,10,20", "column num_gpu: 'one' is no number"),
        ("90,a,1.5,1000,,10,20", "column num_gpu: '1.5' must be a whole number"),
        ("90,a,1,1000,,-5,20", "column creation_time: '-5' must be a number from 0 to 1e+15"),
        ("15,a,1,1000,,10,20", "column deletion_time: 15 is before its scheduled_time, 20"),
        ("90,a,1,1000,,10,5", "column scheduled_time: 5 is before its creation_time, 10"),
        ("90,a,1,1200,,10,20", "column gpu_milli: 1200 is no part of a device: 1 to 1000"),
        ("90,a,NA,1000,,10,20", "column num_gpu: 'NA' is no value, and there must be one"),
        ("90,a,1", "has 3 values: the first line has 7"),
        ("90,first,1,1000,,10,20", "column name: 'first' is there twice: names are unique"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_with_its_place(line: str, problem: str) -> None:
    """File, line, column and reason; --lenient leaves out so many lines, and keeps the others."""
    pods = f"{_PODS}90,first,1,1000,,10,20\n{line}\n"
    (found,) = problems_of(read_openb, {NODES: _NODES, PODS: pods})
    assert found.startswith(f"{PODS}:3: {problem}")
    folder = MadeFolder({NODES: _NODES, PODS: pods}, lenient=1)
    assert [job.name for job in read_openb(folder).jobs] == ["first"]
    assert folder.lenience.left_out == [found]


def test_a_variant_of_the_pods_of_openb_has_demands_and_phases() -> None:
    """Models that a pod accepts are in the files gpuspec; a pod that failed is told."""
    head = "name,num_gpu,gpu_milli,gpu_spec,pod_phase,creation_time,deletion_time,scheduled_time\n"
    texts = {NODES: _NODES, "openb_pod_list_gpuspec33.csv": head + "a,1,1000,V100M16|V100M32,Failed,1,9,2\n"}
    (job,) = read_openb(MadeFolder(texts), "gpuspec33").jobs
    assert (job.models, job.has_failed) == (("V100M16", "V100M32"), True)


def test_a_head_without_a_needed_column_and_one_that_is_there_twice_are_refused() -> None:
    found = problems_of(read_own, {JOBS: "nam,start,end,end\na,1,2,2\n"})
    assert found[0] == "jobs.csv:1: has the column 'end' twice"
    assert found[1].startswith("jobs.csv:1: has no column 'name'") and "nam" in found[1]


def test_reading_ends_after_many_problems() -> None:
    """A file of another kind is not read to its end."""
    found = problems_of(read_own, {JOBS: "name,start,end\n" + "a,x,y\n" * 1000})
    assert len(found) == MOST_PROBLEMS + 1
    assert found[-1] == "jobs.csv: further lines were not read"


def test_our_own_jobs_have_nodes_of_their_peak_where_there_is_no_list() -> None:
    """Nodes that jobs name are as large as their peak; for the other jobs there are nodes of eight."""
    jobs = "name,start,end,devices,share,node,model\na,0,10,2,,n1,H100\nb,5,20,1,,n1,H100\nc,0,9,1,0.25,,\n"
    trace = read_own(MadeFolder({JOBS: jobs}))
    assert trace.nodes == [TraceNode("n1", "H100", 3), TraceNode("node-0", "", 8)]
    assert [job.share for job in trace.jobs] == [1000, 1000, 250]


def test_our_own_jobs_without_a_start_or_an_end() -> None:
    """One without a start never ran, and is counted; one without an end runs to the last time in the files."""
    jobs = "name,start,end\na,0,NA\nb,,\nc,5,70\n"
    trace = read_own(MadeFolder({JOBS: jobs}))
    assert [(job.name, job.end_seconds) for job in trace.jobs] == [("a", 70), ("c", 70)]
    assert trace.left_out == {"jobs that never started": 1}


def test_a_series_is_sorted_and_the_last_of_two_values_of_a_time_counts() -> None:
    """Memory that is not there is that of the value before."""
    series = "job,time,usage,memory\na,60,50,\na,0,10,2GiB\na,60,70,NA\na,120,0,3GiB\nx,0,1,\n"
    trace = read_own(MadeFolder({JOBS: "name,start,end\na,0,180\n", SERIES: series}))
    found = trace.series["a"]
    assert found.seconds.tolist() == [0, 60, 120] and found.end_seconds == 180
    assert found.usage.tolist() == [10, 70, 0]
    assert found.memory_bytes is not None
    assert (found.memory_bytes / 2**30).tolist() == [2, 2, 3]
    assert trace.left_out == {"series without a job": 1}


def test_gentd26_joins_duty_cycle_and_memory_and_begins_at_its_first_value() -> None:
    """A pod is there from its first value to an interval after its last one."""
    usage = "value,timestamp_anon,container_ip\n5,1057,p1\n0,1000,p1\n9,1114,p2\n"
    memory = "value,timestamp_anon,container_ip\n1024,1000,p1\n2048,1057,p1\n1,9999,p1\n"
    trace = read_gentd26(MadeFolder({USAGE: usage, MEMORY: memory}))
    assert trace.jobs == [TraceJob("p1", 0, 0, 114, series="p1"), TraceJob("p2", 114, 114, 174, series="p2")]
    assert trace.series["p1"].usage.tolist() == [0, 5]
    assert np.asarray(trace.series["p1"].memory_bytes).tolist() == [1024, 2048]
    assert trace.series["p2"].memory_bytes is None
    assert trace.left_out == {"values of memory alone": 1}


def test_a_part_of_a_trace_begins_with_what_runs_then() -> None:
    """A job that has begun before starts at once, and keeps its end; others that do not touch the time are counted."""
    jobs = "name,submit,start,end\nbefore,0,0,50\nruns,10,15,150\nlater,120,120,400\nafter,300,300,400\n"
    part = within(read_own(MadeFolder({JOBS: jobs})), Window(100, 200))
    found = [(job.name, job.start_seconds, job.end_seconds) for job in part.jobs]
    assert found == [("runs", 0, 50), ("later", 20, 300)]
    assert [job.start_seconds - job.submit_seconds for job in part.jobs] == [5, 0]
    assert part.left_out == {"jobs outside of the time": 2}


def test_a_part_of_a_trace_has_the_values_until_its_end() -> None:
    """Later ones are not kept: the last one holds on."""
    series = "job,time,usage\na,0,1\na,60,2\na,120,3\n"
    part = within(read_own(MadeFolder({JOBS: "name,start,end\na,0,180\n", SERIES: series})), Window(30, 90))
    assert part.series["a"].seconds.tolist() == [-30, 30]
    assert part.series["a"].usage.tolist() == [1, 2]


def test_of_our_own_series_only_what_holds_in_the_window_is_kept() -> None:
    """Of each job also the last value before it, or the first after it; a job that ends with the files still does."""
    series = "job,time,usage\na,60,2\na,0,1\na,100,3\na,199,4\na,200,5\na,300,6\nb,500,9\nb,400,8\n"
    files = {JOBS: "name,start,end\na,0,\nb,0,300\n", SERIES: series}
    whole, part = (read_own(MadeFolder(files, window=window)) for window in (Window(), Window(90, 200)))
    assert whole.series["a"].usage.tolist() == [1, 2, 3, 4, 5, 6]
    assert part.series["a"].usage.tolist() == [2, 3, 4]
    assert part.series["b"].usage.tolist() == [8]
    assert part.jobs[0].end_seconds >= 500


_LOG = "job_id,user,node_num,gpu_num,cpu_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_logs_of_slurm() -> None:
    """Time begins with the first submission; zones count; what never ran or had no GPU is left out."""
    log = _LOG + (
        "1,u,1,4,16,FAILED,2023-03-01 00:00:10+08:00,2023-03-01 00:00:20+08:00,2023-03-01 00:10:00+08:00,0,0\n"
        "2,u,1,1,1,COMPLETED,2023-02-28 16:00:00,2023-02-28 16:01:00,2023-02-28 16:02:00,0,0\n"
        "3,u,1,0,1,COMPLETED,2023-02-28 16:00:00,2023-02-28 16:01:00,2023-02-28 16:02:00,0,0\n"
        "4,u,1,8,1,CANCELLED,2023-02-28 16:00:00,None,2023-02-28 16:02:00,0,0\n"
    )
    trace = read_helios(MadeFolder({HELIOS: log, HELIOS_GPUS: "date,vc1,total\n2020-09-01,8,16\n2020-09-02,8,26\n"}))
    assert trace.jobs == [TraceJob("1", 10, 20, 600, 4, has_failed=True), TraceJob("2", 0, 60, 120)]
    assert trace.left_out == {"jobs without GPUs": 1, "jobs that never ran": 1}
    assert trace.nodes == [TraceNode(f"node-{number}", "", 8) for number in range(3)]


@pytest.mark.parametrize("name", [SEREN, KALOS])
def test_a_job_on_several_nodes(name: str) -> None:
    """It becomes a job for each; the devices are divided evenly. Acme's boards are A100."""
    log = _LOG + "x,u,3,20,1,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,0,0\n"
    trace = read_acme(MadeFolder({name: log}))
    assert trace.jobs == [
        TraceJob(f"x-{number}", 0, 10, 18, devices, models=("A100",), has_failed=True)
        for number, devices in enumerate((7, 7, 6))
    ]
    assert trace.nodes == [TraceNode(f"node-{number}", "A100", 8) for number in range(3)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a,u,1,1,1,X,yesterday,None,None,0,0", "column submit_time: 'yesterday' is no time, as 2023-03-01 00:18:22"),
        ("a,u,1,99999,1,X,2023-03-01,None,None,0,0", "column gpu_num: 99999 is more than any job has: at most 32768"),
        ("a,u,0,1,1,X,2023-03-01,2023-03-01,2023-03-02,0,0", "column node_num: 0 is no number of nodes: 1 to 4096"),
        ("a,u,1,1,1,X,2023-03-02,2023-03-01,2023-03-02,0,0", "column start_time: "),
        ("a,u,1,1,1,X,2023-03-01,2023-03-03,2023-03-02,0,0", "column end_time: "),
        ("b,u,1,1,1,X,2023-03-01,2023-03-01,2023-03-02,0,0", "column job_id: 'b' is there twice"),
    ],
)
def test_lines_of_slurm_that_are_refused(line: str, problem: str) -> None:
    first = "b,u,1,1,1,X,2023-03-01,2023-03-01,2023-03-02,0,0\n"
    (found,) = problems_of(read_helios, {HELIOS: f"{_LOG}{first}{line}\n"})
    assert found.startswith(f"{HELIOS}:3: {problem}")


def test_spot() -> None:
    """Each worker is a job, from its submission on; nodes get names from their numbers."""
    nodes = "gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,0\nH800,8,192,1\nA10,0,1,2\n"
    jobs = "job_name,gpu_model,gpu_request,worker_num,submit_time,duration\na,A10,1,1,0,50\n"
    jobs += "b,H800,4,2,5,10\nc,A10,0,1,0,5\n"
    trace = read_spot(MadeFolder({SPOT_NODES: nodes, SPOT_JOBS: jobs}))
    assert trace.nodes == [TraceNode("node-0", "A10", 1), TraceNode("node-1", "H800", 8)]
    assert trace.jobs == [
        TraceJob("a", 0, 0, 50, models=("A10",)),
        TraceJob("b-0", 5, 5, 15, 4, models=("H800",)),
        TraceJob("b-1", 5, 5, 15, 4, models=("H800",)),
    ]
    assert trace.left_out == {"jobs without GPUs": 1}
    (found,) = problems_of(read_spot, {SPOT_NODES: nodes, SPOT_JOBS: jobs + "d,A10,1,9999,0,5\n"})
    assert found == f"{SPOT_JOBS}:5: column worker_num: 9999 is no number of workers: 1 to 4096"
