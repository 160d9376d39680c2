"""A small fleet that a real Prometheus scrapes, for commands that read a Prometheus."""

from __future__ import annotations

from pathlib import Path

from tests.exporters.real.test_prometheus import asked, prometheus
from tests.support.programs.asynchronous import eventually, serve
from tests.support.programs.processes import StartAsync

_FLEET = """
fleet:
  pools: [{name: dgx, nodes: 2, device: a100, devices-per-node: 2, identity: %s}]
"""


async def scraped_fleet(
    start_async: StartAsync, tmp_path: Path, devices: str, *, identity: str = "dcgm@4.8.2", times: int = 1
) -> str:
    """The address of a Prometheus that has scraped four boards, each some times; a job of a pod has some of them.

    :param devices: of the job ``train-0`` in the namespace ``ml``, at 60 %.
    """
    job = f'{{name: train, devices: "{devices}", profile: "60:0:0", pod: train-0, namespace: ml, container: main}}'
    service = await serve(start_async, tmp_path, fleet=_FLEET % identity, base=f", base: [{job}]")
    server = await prometheus(start_async, tmp_path, f"""
  - job_name: dcgm
    honor_labels: false
    static_configs: [{{targets: ["{service.web[0]}"]}}]
""")  # fmt: skip

    async def is_scraped() -> bool:
        return len(await asked(server, f"count_over_time(DCGM_FI_DEV_GPU_UTIL[1m]) >= {times}")) == 4

    await eventually(is_scraped, f"all devices are scraped, {times} times")
    return server
