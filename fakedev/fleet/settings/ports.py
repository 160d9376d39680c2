"""The ports for workloads: their keys, and what these say."""

from __future__ import annotations

from dataclasses import dataclass

from fakedev.schema.sections import Key, Section
from fakedev.schema.types import Boolean, Choice, ListOf, Text
from fakedev.web.settings import (
    GROUP,
    LINE_TLS,
    LINE_TOKEN_FILES,
    LINE_TOKENS,
    LISTEN_DOC,
    MODE,
    LineListen,
    LinePortSettings,
)


@dataclass(frozen=True)
class WorkloadListen(LineListen):
    """An address that workloads connect to.

    :param allow: what its clients may change: ``workloads``, ``faults``, ``clock``.
    :param node: node of the device names without one (``card0``); empty for none.
    """

    allow: frozenset[str] = frozenset()
    node: str = ""


@dataclass(frozen=True)
class WorkloadPorts(LinePortSettings):
    """The workload ports and their limits."""

    listen: tuple[WorkloadListen, ...] = ()


WORKLOAD_LISTEN = Section(
    "workloads.listen",
    (
        Key("listen", Text("address"), LISTEN_DOC, required=True),
        MODE,
        GROUP,
        Key(
            "allow",
            ListOf(Choice(("workloads", "faults", "clock")), 1, words="list of workloads, faults, clock"),
            "What clients may change.",
            default_words="all of it on loopback and UNIX sockets, else workloads",
        ),
        Key("node", Text(), "Node of the device words that name none (card0)."),
        LINE_TOKENS,
        LINE_TOKEN_FILES,
        LINE_TLS,
        Key("open", Boolean(), "Allows other machines to connect.", default=False),
    ),
    doc="Ports for workloads. An address alone is enough.",
    shorthand="listen",
)
