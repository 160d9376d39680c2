"""The keys of addresses: under ``web`` and ``workloads.listen``."""

from __future__ import annotations

from fakedev.config.names import host_name, token_text
from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.types import Boolean, Choice, Duration, Integer, ListOf, Mode, Text
from fakedev.config.tls_server import TLS_SERVER
from fakedev.config.web_config import WEB_CONFIG_TYPE

LISTEN_DOC = (
    "Where: 9400 (loopback), *:9400, HOST:PORT, [::1]:9400, /path of a UNIX socket, runtime:NAME (a socket in the "
    "default folder), or a Twisted endpoint string."
)
MESSAGE_TIMEOUT = Key(
    "message-timeout",
    Duration(0.01, 3600),
    "A message must be complete within this time from its first byte.",
    default=10.0,
    field="message_seconds",
)
MAX_CONNECTIONS = Key(
    "max-connections",
    Integer(1, 1_000_000),
    "Connections of each port. For one more the longest silent one without work is closed; if there is none, the new "
    "one is refused as busy.",
    default=10_000,
)
MODE = Key("mode", Mode(), "Permissions of a UNIX socket.", default_words="600; with a group 660", unit="octal")
GROUP = Key("group", Text(), "Group that owns a UNIX socket.", default_words="that of the process")

_TOKEN = Text("text", token_text)
LINE_TOKENS = Key(
    "tokens",
    ListOf(_TOKEN, words="list of tokens"),
    "Peers must give one of these first: `auth TOKEN`. Bare JSON cannot.",
    default=(),
    default_words="none: peers need no token",
    secret=True,
)

LINE_TOKEN_FILES = Key(
    "token-files",
    ListOf(Text("path"), words="list of paths"),
    "Files with one token each, beside `tokens`, as ${CREDENTIALS_DIRECTORY}/token. Read at the start and by reloads; "
    "never in a record.",
    default=(),
)
LINE_TLS = Key(
    "tls_server_config",
    TLS_SERVER,
    "TLS, by the keys of a web configuration ([security.md](security.md#tls-of-line-ports)). Not for UNIX sockets.",
    default_words="none: plain text",
    optional=True,
    field="tls",
)

#: The keys of an address of a line port without settings of its own.
LINE_LISTEN = (
    Key("listen", Text("address"), LISTEN_DOC, required=True),
    MODE,
    GROUP,
    LINE_TOKENS,
    LINE_TOKEN_FILES,
    LINE_TLS,
    Key("open", Boolean(), "Allows other machines to connect.", default=False),
)

_IDENTITY = Key(
    "identity", Text(), "Shows all devices as this exporter does, here only.", default_words="those of the pools"
)
_POOL = Key("pool", Text(), "Show only this pool here.", default_words="all pools")
_HOLD = Key(
    "hold",
    Duration(least=0.001),
    "Pages show the last tick at a multiple of this, as exporters that collect at intervals do.",
    default_words="those of the identities",
)

PAGE = Section(
    "web.pages",
    (
        Key("path", Text("path"), "Its path, as /amd/metrics.", required=True),
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
            "metrics: pages that change nothing; all: everything; exporter: only /metrics and /health, as the "
            "exporter has them.",
            default="all",
        ),
        MODE,
        GROUP,
        _IDENTITY,
        _POOL,
        _HOLD,
        Key("pages", ListOf(PAGE), "Further pages of metrics.", default=()),
        Key("token", _TOKEN, "The token of requests that change something.", secret=True),
        Key(
            "token-file",
            Text("path"),
            "A file with the token, in place of `token`, as ${CREDENTIALS_DIRECTORY}/token. Read at the start and by "
            "reloads; never in a record.",
            default_words="none",
        ),
        Key("open", Boolean(), "Allows other machines to change things without a token.", default=False),
        Key(
            "names",
            ListOf(Text("host name", host_name)),
            "Names that Host may have in requests to the API, besides localhost and IP addresses.",
            default=(),
        ),
        Key(
            "web-config",
            WEB_CONFIG_TYPE,
            "A web configuration file, as exporters of Prometheus take it, or its keys: TLS, passwords, headers "
            "(security.md).",
            default_words="web-config of the top; none for a UNIX socket",
        ),
        Key("hosts", ListOf(Text("host name", host_name)), "The name of `names` in 0.1.", default=()),
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
