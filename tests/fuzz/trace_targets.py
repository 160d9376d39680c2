"""Targets that read tables of traces."""

from __future__ import annotations

from typing import Final

from fakedev.replay.formats.acme_use import MEMORY as ACME_MEMORY
from fakedev.replay.formats.acme_use import USAGE as ACME_USAGE
from fakedev.replay.formats.formats import FORMATS
from fakedev.replay.formats.gentd26 import MEMORY, USAGE
from fakedev.replay.formats.openb import NODES as OPENB_NODES
from fakedev.replay.formats.openb import PODS
from fakedev.replay.formats.own import JOBS, NODES, SERIES
from fakedev.replay.formats.pai import INSTANCES, SENSORS, TASKS
from fakedev.replay.formats.pai import MACHINES as PAI_MACHINES
from fakedev.replay.formats.philly import JOBS as PHILLY_JOBS
from fakedev.replay.formats.philly import MACHINES
from fakedev.replay.formats.philly import USAGE as PHILLY_USAGE
from fakedev.replay.formats.slurm import HELIOS, HELIOS_GPUS, SEREN
from fakedev.replay.formats.spot import JOBS as SPOT_JOBS
from fakedev.replay.formats.spot import NODES as SPOT_NODES
from fakedev.replay.placement import POLICIES
from fakedev.replay.schedule import plan_of
from fakedev.replay.table_reader import MOST_PROBLEMS, TraceProblems
from fakedev.replay.usage import Usage
from tests.fuzz.engine import Target
from tests.support.trace_files import MadeFolder

#: Between the tables of an input.
_BETWEEN: Final = b"----\n"
#: The tables of a format, in the order of an input.
_TABLES: Final = {
    "jobs": (JOBS, NODES, SERIES), "openb": (OPENB_NODES, PODS), "gentd26": (USAGE, MEMORY),
    "helios": (HELIOS, HELIOS_GPUS), "acme": (SEREN,), "spot": (SPOT_NODES, SPOT_JOBS),
    "acme-use": (ACME_USAGE, ACME_MEMORY),
    "pai": (PAI_MACHINES, TASKS, INSTANCES, SENSORS),
    "philly": (PHILLY_JOBS, MACHINES, PHILLY_USAGE),
}  # fmt: skip
_SLURM: Final = (
    b"job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time\n"
    b"1,u,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09\n"
    b"2,u,20,1,3,FAILED,2020-06-09 18:41:01+08:00,2020-06-09 19:41:01+08:00,2020-06-10 04:55:09+08:00\n"
    b"3,u,1,1,1,CANCELLED,2020-06-09 18:41:01,None,2020-06-10 04:55:09\n"
)
_SEEDS: Final = {
    "acme-use": (
        b"Time,172.31.15.112-6,172.31.15.113-0\n2023-07-01 08:00:00+08:00,50,\n2023-07-01 08:00:15+08:00,99.5,0\n"
        b"----\nTime,172.31.15.112-6\n2023-07-01 08:00:00+08:00,1024\n2023-07-01 08:00:15+08:00,81559.0\n",
    ),
    "pai": (
        b"m1,T4,96,512,2\nm2,MISC,96,512,8\nm3,CPU,64,512,0\n----\n"
        b"j,worker,1.0,Terminated,100.0,160.0,600.0,29.3,50.0,T4\n"
        b"j,ps,1.0,Terminated,100.0,160.0,600.0,29.3,,\nk,worker,2.0,Failed,100.0,,600.0,29.3,200.0,MISC\n----\n"
        b"j,worker,i,w1,x,Terminated,101.0,160.0,m1\nk,worker,i,w2,x,Failed,102.0,,m2\nk,worker,i,w2,x,Failed,,,\n----\n"
        b"j,worker,w1,x,m1,/dev/nvidia1,140.1,16.0,1.4,2.3,1.25,2.4,2.1,1.6,1,1\n"
        b"k,worker,w2,x,m2,/dev/nvidia0,1,300.5,1,2,1,2,2,1,1,1\n",
    ),
    "philly": (
        b'[{"status": "Pass", "jobid": "a", "submitted_time": "2017-10-03 00:00:01", "attempts": ['
        b'{"start_time": "2017-10-03 00:00:02", "end_time": "2017-10-03 00:09:02", '
        b'"detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}]}]----\n'
        b"machineId,number of GPUs,single GPU mem\nm1,2, 12GB\n----\ntime,machineId,gpu0_util,gpu1_util\n"
        b"2017-10-03 00:00:00 PDT,m1,60.8,99.366666667,\n2017-10-03 00:01:00 PDT,m1,NA,0.0,\n",
    ),
    "helios": (_SLURM + b"----\ndate,vc1,total\n2020-09-01,8,64\n",),
    "acme": (_SLURM,),
    "spot": (
        b"gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,0\nH800,8,192,1\n----\n"
        b"job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
        b"239255,13,A10,20,1,1,0,2764799,HP\n437260,57,H800,15,8,16,9589663,41060,Spot\n",
    ),
    "jobs": (
        b"name,submit,start,end,devices,share,node,model\na,0,0,600,2,,n0,H100\nb,1,2.5,9,1,0.4,,A|B\n----\n"
        b"name,model,devices\nn0,H100,4\nn1,A100,2\n----\ntime,job,usage,memory\n0,a,10,2GiB\n60,a,90,NA\n",
    ),
    "openb": (
        b"sn,cpu_milli,memory_mib,gpu,model\nn0,96000,1,8,G2\nn1,1,1,0,\n----\n"
        b"deletion_time,name,num_gpu,gpu_milli,gpu_spec,creation_time,scheduled_time\n100,a,1,470,V100M16|T4,10,20\n"
        b",b,2,1000,,10,30\n90,c,1,1000,,10,\n",
    ),
    "gentd26": (
        b"value,timestamp_anon,container_ip\n5,1057,p1\n0,1000,p1\n9,1114,p2\n----\n"
        b"value,timestamp_anon,container_ip\n1024,1000,p1\n2048,1057,p1\n",
    ),
}
_WORDS: Final = (
    b",", b"\n", b"\r\n", b'"', b"----\n", b"NA", b"nan", b"inf", b"-1", b"1e308", b"1e-308", b"99999999999999999999",
    b"0.0001", b"\xff", b"\xef\xbb\xbf", b"T4|", b"1GiB", b"1e999GiB",
    b"null", b"[", b"]", b"{", b"}", b'"detail": ', b"gpu", b"/dev/nvidia",
    b"2017-10-03 00:08:00 PDT", b"9999-12-31 23:59:59",
)  # fmt: skip


def small_trace(name: str) -> dict[str, str]:
    """The files of a small trace of a format, by their names."""
    (data,) = _SEEDS[name]
    return {file: part.decode() for file, part in zip(_TABLES[name], data.split(_BETWEEN), strict=True)}


class Traces:
    """The tables of a format, and the placement of its jobs.

    :param name: of the format.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, data: bytes) -> str:
        """Read and place; problems are few, short, and name their table."""
        tables = _TABLES[self._name]
        parts = data.split(_BETWEEN, len(tables) - 1)
        folder = MadeFolder(
            {name: part.decode(errors="replace") for name, part in zip(tables, parts, strict=False)}, len(data) % 3
        )
        try:
            trace = FORMATS[self._name].read(folder)
        except TraceProblems as error:
            assert len(error.problems) <= MOST_PROBLEMS + 10
            assert all(problem.startswith(tables) for problem in error.problems), error.problems
            assert max(map(len, error.problems)) < 1500
            return "|".join(error.problems)
        plan = plan_of(trace, POLICIES[len(data) % len(POLICIES)], Usage(60.0, 20.0))
        return f"{len(plan.placement.placed)} placed, {len(plan.placement.never)} never"

    def stop(self) -> None:
        """Nothing is left."""


def _target(name: str) -> Target:
    return Target(f"traces {name}", lambda: Traces(name), lambda: _SEEDS[name], lambda: _WORDS, 200, 20_000)


TARGETS: Final = tuple(_target(name) for name in _TABLES)
