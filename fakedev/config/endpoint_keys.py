"""The keys of addresses: under ``web`` and ``workloads.listen``."""

from __future__ import annotations

from fakedev.config.names import token_text
from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.types import Boolean, Choice, Duration, ListOf, Mode, Text

LISTEN_DOC = (
    "Where: 9400 (loopback), *:9400, HOST:PORT, [::1]:9400, /path of a UNIX socket, runtime:NAME (a socket in the "
    "default folder), or a Twisted endpoint string."
)
MESSAGE_TIMEOUT = Key(
    "message-timeout",
    Duration(0.01, 3600),
    "A message that was begun must be complete within this time.",
    default=10.0,
)
MODE = Key("mode", Mode(), "Permissions of a UNIX socket.", default_words="600; with a group 660", unit="octal")
GROUP = Key("group", Text(), "Group that owns a UNIX socket.", default_words="that of the process")

_IDENTITY = Key(
    "identity", Text(), "Show all devices as this exporter does, here only.", default_words="as the pools say"
)
_POOL = Key("pool", Text(), "Show only this pool here.", default_words="all pools")
_HOLD = Key(
    "hold",
    Duration(least=0.001),
    "Pages show the last tick at a multiple of this, as exporters that collect at intervals do.",
    default_words="as the identities say",
)

PAGE = Section(
    "web.pages",
    (
        Key("path", Text("path"), "Where it is, as /amd/metrics.", required=True),
        _IDENTITY,
        _POOL,
        _HOLD,
    ),
    doc="A page of metrics beside /metrics: the same devices in another identity, or some of them.",
)

WEB = Section(
    "web",
    (
        Key("listen", Text("address"), LISTEN_DOC, default_words="none; must be given, or per-node"),
        Key(
            "per-node",
            Text("NETWORK:PORT"),
            "In place of listen: an address for each node, as 127.64.0.0/16:9400, with its exporter's /metrics and "
            "/health.",
        ),
        Key(
            "serve",
            Choice(("metrics", "all", "exporter")),
            "metrics: pages that change nothing; all: everything; exporter: /metrics and /health alone, as the "
            "exporter has them.",
            default="all",
        ),
        MODE,
        GROUP,
        _IDENTITY,
        _POOL,
        _HOLD,
        Key("pages", ListOf(PAGE), "Further pages of metrics.", default=()),
        Key("token", Text("text", token_text), "What a request that changes something must carry.", secret=True),
        Key("open", Boolean(), "Let other machines change things without a token.", default=False),
        Key(
            "hosts",
            ListOf(Text()),
            "Names that may stand in Host when something is changed, beside localhost and addresses.",
            default=(),
        ),
    ),
    doc="HTTP endpoints. An address alone is enough.",
    shorthand="listen",
)

WORKLOAD_LISTEN = Section(
    "workloads.listen",
    (
        Key("listen", Text("address"), LISTEN_DOC, required=True),
        MODE,
        GROUP,
        Key(
            "allow",
            ListOf(Choice(("workloads", "faults", "clock")), 1, words="list of workloads, faults, clock"),
            "What peers may do.",
            default_words="all of it on loopback and UNIX sockets, else workloads",
        ),
        Key("node", Text(), "The node whose devices are meant by bare names (card0)."),
        Key("open", Boolean(), "Let other machines connect.", default=False),
    ),
    doc="Ports for workloads. An address alone is enough.",
    shorthand="listen",
)
