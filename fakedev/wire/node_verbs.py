"""The verbs and notifications of the node port; doc/protocol-node.txt explains them in full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fakedev.wire.grammar import SHARED_VERBS, Argument, Flag, Grammar, Kind, Verb
from fakedev.wire.replies import Notification
from fakedev.wire.words import quote_word

#: Bytes of a line from the port.
MAX_VIEW_BYTES: Final = 1 << 20
#: Of a report: its parts, and the allocations of all of them.
MAX_PARTS: Final = 64
MAX_ALLOCATIONS: Final = 10_000

NODE_VERBS: Final = (
    Verb(
        "attach",
        "Name the node of this connection, and get its view.",
        positionals=[Argument("node", Kind.TEXT, "NODE", "the name of a simulated node", required=True)],
        answers=["ok N lines; later, when something changes: changed NODE ..."],
    ),
    Verb("restarted", "Tell that the plugins of the node were started.", answers=["ok"]),
    Verb(
        "registered",
        "Tell which plugins the kubelet has taken.",
        positionals=[Argument("resources", Kind.LIST, "RESOURCE,...", "all of them; default: none")],
        answers=["ok"],
    ),
    Verb(
        "report",
        "Report who has which devices: the whole list.",
        positionals=[
            Argument("allocations", Kind.SERIES, "ALLOCATIONS", "the list; in words as quoted JSON", required=True)
        ],
        flags=[Flag("more", "further parts of the list follow")],
        answers=["ok N allocations"],
    ),
    Verb(
        "prefer",
        "Ask which devices a container should be given.",
        positionals=[
            Argument("resource", Kind.TEXT, "RESOURCE", "as nvidia.com/gpu", required=True),
            Argument("count", Kind.WHOLE, "N", "how many", required=True),
        ],
        options=[
            Argument("available", Kind.LIST, "ID,...", "the devices to choose from", required=True),
            Argument("must", Kind.LIST, "ID,...", "devices that the answer must contain"),
        ],
        answers=["ok ID,..."],
    ),
    Verb(
        "prepare",
        "Ask for the devices of a claim.",
        positionals=[
            Argument("namespace", Kind.TEXT, "NAMESPACE", "of the claim", required=True),
            Argument("claim", Kind.TEXT, "CLAIM", "its name", required=True),
            Argument("uid", Kind.TEXT, "UID", "its uid", required=True),
        ],
        answers=["ok N lines"],
    ),
    Verb("boards", "Ask for the present tick of the node's boards, for the file of NVML.", answers=["ok N bytes"]),
    Verb("ping", "Ask whether the service is there.", answers=["ok"]),
    *SHARED_VERBS,
)

NODE_GRAMMAR: Final = Grammar(NODE_VERBS)


def view_changed(node: str, is_down: bool, devices: int, unhealthy: int, view: Mapping[str, object]) -> Notification:
    """The notification of a new view.

    :param view: its fields in JSON.
    """
    text = f"changed {quote_word(node)} plugin={plugin_word(is_down)} devices={devices} unhealthy={unhealthy}"
    return Notification(text, {"event": "changed", "view": view})


def plugin_word(is_down: bool) -> str:
    """How the plugins' state is written in words."""
    return "down" if is_down else "up"
