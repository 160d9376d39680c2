"""The formats of traces that fakedev reads, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fakedev.replay.formats.acme_use import read_acme_use
from fakedev.replay.formats.gentd26 import read_gentd26
from fakedev.replay.formats.openb import read_openb
from fakedev.replay.formats.own import read_own
from fakedev.replay.formats.pai import read_pai
from fakedev.replay.formats.philly import read_philly
from fakedev.replay.formats.slurm import ACME_MODEL, read_acme, read_helios
from fakedev.replay.formats.spot import read_spot
from fakedev.replay.trace import IFolder, Trace

#: V100M16 and M32 are V100s with 16 and 32 GB.
_ALIBABA_DEVICES: Final = {"V100M16": "v100-sxm2-16gb", "V100M32": "v100-sxm2-32gb"}
_ACME_DEVICES: Final = {ACME_MODEL: "a100-sxm4-80gb"}


class Format(NamedTuple):
    """A format.

    :ivar words: what it is, for the help.
    :ivar devices: device types of models that the catalog does not know by the trace's name.
    :ivar read_variant: reads a variant of its files, by name; None: there are none.
    """

    read: Callable[[IFolder], Trace]
    words: str
    devices: Mapping[str, str] = {}
    read_variant: Callable[[IFolder, str], Trace] | None = None


FORMATS: Final[Mapping[str, Format]] = {
    "jobs": Format(read_own, "jobs.csv, with nodes.csv and series.csv where there are any: fakedev's own"),
    "openb": Format(read_openb, "Alibaba's gpu-v2023: nodes and pods", _ALIBABA_DEVICES, read_openb),
    "spot": Format(read_spot, "Alibaba's v2026-spot-gpu: nodes, and jobs of workers"),
    "helios": Format(read_helios, "SenseTime's Helios: the log of a cluster's jobs"),
    "acme": Format(read_acme, "Shanghai AI Lab's Acme: the jobs of Seren or Kalos", _ACME_DEVICES),
    "acme-use": Format(read_acme_use, "Acme: usage and memory of each GPU, every 15 s", _ACME_DEVICES),
    "pai": Format(read_pai, "Alibaba's v2020: instances with machine, GPU and mean usage", _ALIBABA_DEVICES),
    "philly": Format(read_philly, "Microsoft's Philly: attempts with their machines and GPUs, usage of each GPU"),
    "gentd26": Format(read_gentd26, "Alibaba's v2026-GenAI: duty cycle and memory of each pod's GPU"),
}
