"""The section ``queues``: its keys, and the queues and ports that it describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fakedev.config.configuration import Queues
from fakedev.config.endpoint_keys import LINE_LISTEN, MAX_CONNECTIONS, MESSAGE_TIMEOUT
from fakedev.config.endpoints import Endpoints
from fakedev.config.names import MAX_QUEUES, queue_name
from fakedev.config.schema.fields import keys_from
from fakedev.config.schema.files import absolute
from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Key, Section, Values
from fakedev.config.schema.types import (
    Choice,
    Duration,
    ListOf,
    MapOf,
    OneOf,
    Size,
    Text,
)
from fakedev.workqueue.spec import MIB, BrokerSpec, QueueSpec

#: A request may be as long as a line of the protocol; the memory must hold at least one.
MIN_BYTES: Final = 2**17

QUEUE = Section(
    "queues.names",
    keys_from(QueueSpec),
    doc="One queue, by its name. In the short form, `names: [sleep, media]`, queues have these defaults.",
)

QUEUE_LISTEN = Section(
    "queues.listen-clients, queues.listen-backends",
    LINE_LISTEN,
    doc="Ports of the queues. An address alone is enough.",
    shorthand="listen",
)

QUEUES = Section(
    "queues",
    (
        Key(
            "names",
            OneOf((ListOf(Text("queue name", queue_name), words="list of names"), MapOf(QUEUE, check=queue_name))),
            "The queues, at most 100: a list of names, or a mapping of names to the settings of each.",
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
            default=BrokerSpec.max_bytes,
            default_words=f"{BrokerSpec.max_bytes // MIB}MiB",
            unit="bytes, or with kB, MB, GB, KiB, MiB, GiB",
        ),
        Key(
            "window",
            Duration(1, 86_400),
            "What the maxima and rates among the metrics cover.",
            default=BrokerSpec.window_seconds,
        ),
        Key(
            "maxima",
            Choice(("window", "interval", "since-scrape")),
            "What the maxima cover: the window; as long as log-interval, with that as label; or the time since the "
            "last scrape, as in the original.",
            default=BrokerSpec.maxima,
        ),
        Key(
            "log-interval",
            Duration(1, 86_400, none=True),
            "How often statistics of each queue are logged.",
            default=0.0,
        ),
        Key(
            "drain",
            Duration(0, 86_400),
            "How long running jobs may finish when fakedev is stopped.",
            default=Queues.drain_seconds,
        ),
        MAX_CONNECTIONS,
        MESSAGE_TIMEOUT,
    ),
    doc="Work queues; [work-queue.md](work-queue.md) explains them.",
)


def load_queues(values: Values, endpoints: Endpoints, report: Report, folder: str) -> Queues | None:
    """The queues and their ports; problems are reported.

    :param folder: where relative folders of durable queues begin.
    :returns: None when no queue is named.
    """
    names = tuple(_named(values, report, folder))
    if not names:
        for key in values:
            if key != "names" and values.given(key) and not values.given("names"):
                report.problem(values.place_of(key), f"queues.{key}: there are no queues: give them in queues.names")
        return None
    if len(names) > MAX_QUEUES:
        report.problem(values.place_of("names"), f"queues.names: {len(names)} queues, and {MAX_QUEUES} are the most")
    if values["max-bytes"] < MIN_BYTES:
        report.problem(values.place_of("max-bytes"), f"queues.max-bytes: must be at least {MIN_BYTES // 1024}KiB")
    interval = values["log-interval"]
    if values["maxima"] == "interval" and not interval:
        report.problem(values.place_of("maxima"), "queues.maxima: interval needs the interval: give log-interval")
    max_bytes = int(values["max-bytes"])
    return values.build(
        Queues,
        broker=values.build(BrokerSpec, queues=names, max_bytes=max_bytes, interval_seconds=interval),
        clients=endpoints.queues(values["listen-clients"], "put requests into the queues"),
        backends=endpoints.queues(values["listen-backends"], "take the requests of the queues"),
    )


def _named(values: Values, report: Report, folder: str) -> Iterator[QueueSpec]:
    names = values["names"]
    if isinstance(names, Mapping):
        owners: dict[str, str] = {}
        for name, settings in names.items():
            durable = absolute(settings["durable"], folder) if settings["durable"] else ""
            if settings.given("durable") and owners.setdefault(durable, name) != name:
                reason = f"the queue {owners[durable]!r} has this folder too: give each queue its own"
                report.problem(settings.place_of("durable"), f"queues.names.{name}.durable: {reason}")
            elif settings.given("durable") and not durable:
                report.problem(settings.place_of("durable"), f"queues.names.{name}.durable: must be a folder")
            yield settings.build(QueueSpec, name=name, durable=durable)
        return
    for place, name in enumerate(names):
        if name in names[:place]:
            report.problem(values.place_of("names"), f"queues.names: the queue {name!r} is there twice")
        else:
            yield QueueSpec(name)
