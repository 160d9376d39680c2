"""The kinds of work of every board with dynamics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fakedev.schema.declare import setting


@dataclass(frozen=True)
class WorkKind:
    """The effect of a full load (100 %) of one kind of work on a board; shares of 1."""

    usage: float = setting("The usage that the board reports.", default=1.0)
    plain: float = setting("Share of the ranges of engines, memory bandwidth and links that it uses.", default=0.0)
    tensor: float = setting("Further share of the tensor pipes.", default=0.0)
    sm: float = setting("Share of the multiprocessors that have work; no less than any pipe.", default=0.9)
    occupancy: float = setting("Share of the warp slots that are taken; at most sm.", default=0.3)
    fp64: float = setting("Share of the FP64 pipes.", default=0.0)
    fp32: float = setting("Share of the FP32 pipes.", default=0.0)
    fp16: float = setting("Share of the FP16 pipes.", default=0.0)
    copy: float = setting("Further share of the copy engines.", default=0.0)
    encoder: float = setting("Further share of the media encoders.", default=0.0)
    decoder: float = setting("Further share of the media decoders.", default=0.0)
    render: float = setting("Further share of the 3D engines.", default=0.0)
    memory: float = setting("Further share of the memory bandwidth.", default=0.0)
    read: float = setting("Share of its memory traffic that reads.", default=0.67)
    transfer: float = setting("Further share of the PCIe link, each way.", default=0.0)
    fabric: float = setting("Further share of the links to other boards, each way.", default=0.0)
    power: float = setting("Dynamic power, as a share of the dynamic power at plain full load.", default=1.0)
    power_exponent: float = setting("Power is proportional to load to this power.", default=1.0)
    clock_sensitivity: float = setting(
        "Share of a throttled clock's loss by which the work and its traffic become slower.", default=1.0
    )


#: The kinds of work of every board with dynamics; doc/simulation.md has the sources.
WORK_KINDS: Mapping[str, WorkKind] = {
    "compute": WorkKind(plain=1.0, sm=0.95, occupancy=0.45, fp64=0.02, fp32=0.35, fp16=0.02),
    "tensor": WorkKind(
        tensor=0.93, sm=0.97, occupancy=0.2, fp32=0.05, fp16=0.02, memory=0.35, fabric=0.1, power=1.4
    ),
    "training": WorkKind(
        tensor=0.46, sm=0.86, occupancy=0.24, fp32=0.1, fp16=0.02, memory=0.4, fabric=0.05, power=1.4,
        clock_sensitivity=0.8,
    ),
    "memory": WorkKind(
        tensor=0.02, sm=0.85, occupancy=0.6, fp32=0.08, fp16=0.01, memory=0.92, read=0.5, power=0.35,
        clock_sensitivity=0.1,
    ),
    "transfer": WorkKind(
        usage=0.1, sm=0.02, occupancy=0.01, copy=0.8, memory=0.05, read=0.5, transfer=0.8, power=0.12,
        clock_sensitivity=0.0,
    ),
    "exchange": WorkKind(
        sm=0.15, occupancy=0.05, fp32=0.02, memory=0.3, read=0.5, fabric=0.8, power=0.25, clock_sensitivity=0.1
    ),
    "encode": WorkKind(usage=0.1, sm=0.05, occupancy=0.02, encoder=1.0, memory=0.05, power=0.15, clock_sensitivity=0.5),
    "decode": WorkKind(
        usage=0.05, sm=0.02, occupancy=0.01, decoder=1.0, memory=0.05, read=0.33, power=0.1, clock_sensitivity=0.5
    ),
    "render": WorkKind(sm=0.85, occupancy=0.4, fp32=0.4, render=1.0, memory=0.3, power=0.9),
}  # fmt: skip
