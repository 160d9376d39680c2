"""The keys under ``queues``."""

from __future__ import annotations

from fakedev.config.endpoint_keys import GROUP, LISTEN_DOC, MESSAGE_TIMEOUT, MODE
from fakedev.config.names import queue_name
from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.types import (
    DURATION_UNITS,
    Boolean,
    Choice,
    Duration,
    Integer,
    ListOf,
    MapOf,
    OneOf,
    Size,
    Text,
)

QUEUE = Section(
    "queues.names",
    (
        Key(
            "max-waiting",
            Integer(0, 100_000_000),
            "Requests that may wait; one more is refused. 0: no limit but that of the bytes.",
            default=0,
        ),
        Key(
            "retries",
            Integer(0, 1000),
            "How often a job that its backend left behind is offered again, before it is buried. "
            "0: its client is told at once.",
            default=0,
        ),
        Key(
            "run-time-limit",
            Duration(none=True),
            "Run-time limit of requests that bring none.",
            default=0.0,
            default_words="none",
            unit=DURATION_UNITS,
        ),
        Key(
            "grace",
            Duration(0, 86_400),
            "How long after its limit a job is ended, when its backend is silent.",
            default=5.0,
            default_words="5s",
            unit=DURATION_UNITS,
        ),
    ),
    doc="One queue, by its name. In the short form, `names: [sleep, media]`, all of this is left as it is.",
)

QUEUE_LISTEN = Section(
    "queues.listen-clients, queues.listen-backends",
    (
        Key("listen", Text("address"), LISTEN_DOC, required=True),
        MODE,
        GROUP,
        Key("open", Boolean(), "Let other machines connect.", default=False),
    ),
    doc="Ports of the queues. An address alone is enough.",
    shorthand="listen",
)

QUEUES = Section(
    "queues",
    (
        Key(
            "names",
            OneOf((ListOf(Text("queue name", queue_name), words="list of names"), MapOf(QUEUE, check=queue_name))),
            "The queues that there are, at most 100: a list of names, or what is special of each by its name.",
            default=(),
            default_words="none: no queues and no ports",
        ),
        Key(
            "listen-clients",
            ListOf(QUEUE_LISTEN, words="list of addresses"),
            "Where clients put requests.",
            default_yaml='["127.0.0.1:9997"]',
            default_words="127.0.0.1:9997",
        ),
        Key(
            "listen-backends",
            ListOf(QUEUE_LISTEN, words="list of addresses"),
            "Where backends take them.",
            default_yaml='["127.0.0.1:9999"]',
            default_words="127.0.0.1:9999",
        ),
        Key(
            "max-bytes",
            Size(),
            "Requests that wait or run, all queues together, counted with 512 bytes each, and 64 for each "
            "argument, besides their own; "
            "one more is refused.",
            default=256 * 2**20,
            default_words="256MiB",
            unit="bytes, or with kB, MB, GB, KiB, MiB, GiB",
        ),
        Key(
            "window",
            Duration(1, 86_400),
            "What the maxima and rates among the metrics cover.",
            default=60.0,
            default_words="1m",
            unit=DURATION_UNITS,
        ),
        Key(
            "maxima",
            Choice(("window", "interval", "since-scrape")),
            "What the maxima cover: the window; as long as log-interval, with that as label; or the time since the "
            "last scrape, as in the original.",
            default="window",
        ),
        Key(
            "log-interval",
            Duration(1, 86_400, none=True),
            "How often statistics of each queue are logged.",
            default=0.0,
            default_words="none",
            unit=DURATION_UNITS,
        ),
        Key(
            "drain",
            Duration(0, 86_400),
            "How long running jobs may finish when fakedev is stopped.",
            default=25.0,
            default_words="25s",
            unit=DURATION_UNITS,
        ),
        Key(
            "max-connections",
            Integer(1, 1_000_000),
            "Connections of each port; one more is told that it is busy.",
            default=10_000,
        ),
        MESSAGE_TIMEOUT,
    ),
    doc="Work queues; [work-queue.md](work-queue.md) explains them.",
)
