"""The section ``queues``: its keys, and the configuration of queues and ports as frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from fakedev.base.names import MAX_QUEUES, queue_name
from fakedev.schema.declare import described, setting
from fakedev.schema.places import Report
from fakedev.schema.sections import Section, Values
from fakedev.schema.types import Choice, Duration, ListOf, MapOf, OneOf, Path, Text, keys_from
from fakedev.web.settings import LINE_LISTEN, LineListen, LinePortSettings, ReadListen

#: The time that a maximum covers: the last ``window_seconds``; the time since the last scrape, as in the original
#: program; or the last ``interval_seconds``, similar to the original program with -interval.
Maxima = Literal["window", "interval", "since-scrape"]

MIB = 2**20


def _folder(text: str) -> str:
    if not text:
        raise ValueError("must be a folder")
    return text


@dataclass(frozen=True)
class QueueSpec:
    """One queue. Its settings are keys of the configuration: ``max-waiting``, ``grace`` for ``grace_seconds``."""

    name: str
    max_waiting: int = setting(
        "Requests that may wait; one more is refused. 0: only the bytes are limited.", default=0, high=100_000_000
    )
    retries: int = setting(
        "How often a job whose backend disconnected is offered again, before it is buried. "
        "0: its client gets the result at once.",
        default=0,
        high=1000,
    )
    run_time_limit_seconds: float = setting("Run-time limit of requests without one.", default=0.0)
    grace_seconds: float = setting(
        "How long after its limit a job is ended, when its backend is silent.", default=5.0, high=86_400
    )
    durable: str = setting(
        "A folder in which the queue keeps its requests, so that they survive a restart and their clients; "
        "made if it is not there, and for this queue alone.",
        default="", type=Path("text", _folder),
    )  # fmt: skip


QUEUE: Final = Section(
    "queues.names",
    keys_from(QueueSpec),
    doc="One queue, by its name. In the short form, `names: [sleep, media]`, queues have these defaults.",
)


@dataclass(frozen=True)
class BrokerSpec:
    """All queues."""

    queues: tuple[QueueSpec, ...] = field(metadata=described(
        "The queues, at most 100: a list of names, or a mapping of names to the settings of each.",
        name="names", default=(), default_words="none: no queues and no ports",
        type=OneOf((ListOf(Text("queue name", queue_name), words="list of names"), MapOf(QUEUE, check=queue_name))),
    ))  # fmt: skip
    max_bytes: int = setting(
        "Requests that wait or run, all queues together, counted with 512 bytes each, and 64 for each argument, "
        "besides their own; one more is refused.",
        "bytes, or with kB, MB, GB, KiB, MiB, GiB", 256 * MIB, name="max-bytes",
    )  # fmt: skip
    window_seconds: float = setting(
        "What the maxima and rates among the metrics cover.", default=60.0, low=1, high=86_400, restart="queues.window"
    )
    maxima: Maxima = setting(
        "What the maxima cover: the window; as long as log-interval, with that as label; or the time since the last "
        "scrape, as in the original.",
        default="window", type=Choice(get_args(Maxima)), restart="queues.maxima",
    )  # fmt: skip
    interval_seconds: float = 0.0


_LISTEN: Final = ListOf(
    Section(
        "queues.listen-clients, queues.listen-backends",
        LINE_LISTEN,
        doc="Ports of the queues. An address alone is enough.",
        shorthand="listen",
    ),
    words="list of addresses",
)


@dataclass(frozen=True)
class Queues(LinePortSettings):
    """The work queues and their ports."""

    broker: BrokerSpec
    clients: tuple[LineListen, ...] = field(metadata=described(
        "Where clients put requests.",
        name="listen-clients", type=_LISTEN, default_yaml='["127.0.0.1:9997"]', default_words="127.0.0.1:9997",
    ))  # fmt: skip
    backends: tuple[LineListen, ...] = field(metadata=described(
        "Where backends take them.",
        name="listen-backends", type=_LISTEN, default_yaml='["127.0.0.1:9999"]', default_words="127.0.0.1:9999",
    ))  # fmt: skip
    log_interval_seconds: float = setting(
        "How often statistics of each queue are logged.",
        default=0.0, type=Duration(1, 86_400, none=True), restart="queues.log-interval",
    )  # fmt: skip
    drain_seconds: float = setting(
        "How long running jobs may finish when fakedev is stopped.", default=25.0, high=86_400, restart="queues.drain"
    )


#: A request may be as long as a line of the protocol; the memory must hold at least one.
MIN_BYTES: Final = 2**17

QUEUES: Final = Section(
    "queues",
    (
        *keys_from(BrokerSpec, "queues"),
        *keys_from(Queues, "clients", "backends"),
        *keys_from(BrokerSpec, "max_bytes", "window_seconds", "maxima"),
        *keys_from(Queues, "log_interval_seconds", "drain_seconds"),
        *keys_from(LinePortSettings),
    ),
    doc="Work queues; [work-queue.md](work-queue.md) explains them.",
)


def load_queues(values: Values, read_listen: ReadListen, report: Report) -> Queues | None:
    """The queues and their ports; problems are reported.

    :param read_listen: reads the addresses of a port.
    :returns: None when no queue is named.
    """
    names = tuple(_named(values, report))
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
    return values.build(
        Queues,
        broker=values.build(BrokerSpec, queues=names, interval_seconds=interval),
        clients=read_listen(values["listen-clients"], "put requests into the queues"),
        backends=read_listen(values["listen-backends"], "take the requests of the queues"),
    )


def _named(values: Values, report: Report) -> Iterator[QueueSpec]:
    names = values["names"]
    if isinstance(names, Mapping):
        owners: dict[str, str] = {}
        for name, settings in names.items():
            durable = settings["durable"]
            if durable and owners.setdefault(durable, name) != name:
                reason = f"the queue {owners[durable]!r} has this folder too: give each queue its own"
                report.problem(settings.place_of("durable"), f"queues.names.{name}.durable: {reason}")
            yield settings.build(QueueSpec, name=name)
        return
    for place, name in enumerate(names):
        if name in names[:place]:
            report.problem(values.place_of("names"), f"queues.names: the queue {name!r} is there twice")
        else:
            yield QueueSpec(name)
