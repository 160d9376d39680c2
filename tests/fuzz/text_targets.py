"""Targets without state: parsers of texts, messages, flags, records and configuration files."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import Final

from fakedev.api.pasted_rules import rules_of
from fakedev.base import names, units
from fakedev.base.errors import Refused
from fakedev.calibrate.runs import RunError, read_answer, read_csv, read_openmetrics, run_of_series
from fakedev.commands.dropins.backend import BackendOptions
from fakedev.commands.dropins.client import ClientOptions
from fakedev.commands.dropins.dcgm_exporter import DcgmOptions
from fakedev.commands.dropins.exporter import ExporterOptions
from fakedev.commands.dropins.frontend import FrontendOptions
from fakedev.commands.workload.options import WorkloadOptions, fields_from_json
from fakedev.exporters.hpc_jobs import jobs_of
from fakedev.exporters.settings.identities import chosen_release, releases_in
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.parts.mig import mig_of
from fakedev.fleet.spec import profiles
from fakedev.fleet.spec.fault_kinds import fault_from_fields
from fakedev.fleet.spec.fleet_spec import MetricName
from fakedev.fleet.spec.limits import parse_shard, shard_of_host
from fakedev.fleet.spec.quantities import tally_of
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.fleet.verbs import parse_bare_workload
from fakedev.kubernetes.runai.mig_annotation import annotated_layout
from fakedev.lines.framing import Opening
from fakedev.lines.grammar import Grammar, ProtocolError
from fakedev.lines.json_lines import load_object, parse_json_line
from fakedev.lines.words import parse_words
from fakedev.queues.bare import parse_bare_ask, parse_bare_request, parse_bare_result, parse_bare_work
from fakedev.queues.job import JobState
from fakedev.queues.log import DamagedLog, LoggedJob, accepted_record, head_record, replay, state_record
from fakedev.queues.messages import parse_backend_message, parse_client_message
from fakedev.scenario.rules.alert_rules import Needs
from fakedev.scenario.rules.expected import read_word
from fakedev.scenario.rules.rule_files import read_rules
from fakedev.scenario.scores.score_report import parse_requirement
from fakedev.schema import go_flags
from fakedev.schema.addresses import parse_listen, parse_per_node
from fakedev.schema.files import Files, Unreadable
from fakedev.schema.go_flags import FlagError, HelpAsked
from fakedev.schema.peer_addresses import parse_address
from fakedev.schema.places import ConfigurationError
from fakedev.tester.rates import parse_expectation, parse_open_load, parse_rate
from fakedev.web.heads import read_head
from fakedev.web.http_limits import HttpError, HttpLimits
from fakedev.web.settings import read_web_config
from tests.fuzz import seeds
from tests.fuzz.engine import Target

#: The most characters of an error's text: it quotes the beginning of what is wrong, and names what would be right.
MAX_ERROR: Final = 2000


class Parsers:
    """Calls functions with a text; each may raise what it declares.

    :param declared: the errors.
    """

    def __init__(self, declared: tuple[type[Exception], ...], *calls: Callable[[str], object]) -> None:
        self._declared = declared
        self._calls = calls

    def run(self, data: bytes) -> str:
        """The answers of all."""
        text = data.decode("utf-8", "replace")
        return "|".join(answer_of(lambda call=call: call(text), self._declared) for call in self._calls)  # type: ignore[misc]

    def stop(self) -> None:
        """Nothing is left."""


def answer_of(call: Callable[[], object], declared: tuple[type[Exception], ...]) -> str:
    """The kind of the result, or the text of a declared error, which must be short and on one line."""
    try:
        result = call()
    except declared as error:
        text = str(error)
        # Other errors become one of these before a peer or a user sees them.
        if isinstance(error, ProtocolError | Refused | FlagError):
            assert len(text) <= MAX_ERROR, f"an error of {len(text)} characters: {text[:300]}"
        assert not isinstance(error, UnicodeError), text
        return text
    return type(result).__name__


def _texts() -> Parsers:
    roster = Roster(seeds.small_fleet().fleet.pools)
    releases = releases_in(Files(environ={}).peek_catalog("identities", "dcgm.yaml"))
    assert releases is not None

    def read(path: str) -> str:
        raise Unreadable(f"no {path[:60]}")

    def open_load_of_table(text: str) -> object:
        return parse_open_load("csv:x", lambda path: text)

    calls: list[Callable[[str], object]] = [
        units.parse_duration, units.parse_size, units.parse_seconds, units.parse_number, parse_shard, shard_of_host,
        *(lambda text, unit=unit: profiles.profile_from(text, unit) for unit in
          (units.LOAD, units.SHARE, units.BYTES, units.BYTES_PER_SECOND, units.RATIO, units.TRAFFIC)),
        parse_rate, lambda text: parse_open_load(text, read), open_load_of_table, parse_expectation, parse_listen,
        parse_per_node, parse_address, tally_of, names.pool_name, names.node_name, names.queue_name, names.fact_name,
        names.inlet_celsius, names.uuid_text, names.pci_address, names.epoch_seconds, names.node_pattern,
        names.token_text, go_flags.parse_boolean, go_flags.parse_integer, go_flags.parse_unsigned,
        go_flags.parse_number, go_flags.parse_seconds, lambda text: resolve(text.split(","), roster),
        lambda text: resolve([text], roster, "b"), lambda text: chosen_release(text, releases),
        lambda text: jobs_of(text.encode()), parse_requirement, lambda text: read_word(text, ["hot"]),
        rules_of,
    ]  # fmt: skip
    return Parsers((ValueError, Refused), *calls)


def _rules() -> Parsers:
    """Rule files, and what their expressions need."""

    def lacks(text: str) -> object:
        rules = read_rules(text, "r.yml")
        needs = Needs("a".__eq__, "b".__eq__, rules.recorded)
        return [needs.missing_of(alert.expression) for alert in rules.alerts]

    return Parsers((ConfigurationError,), lacks)


def _runs() -> Parsers:
    """Recorded runs, in each of their forms."""
    names = {"P": MetricName("power_watts"), "U": MetricName("usage_ratio", 100.0)}

    def of_series(text: str) -> object:
        return run_of_series(read_openmetrics(text, "f.om"), names, {}, "f.om")

    def answered(text: str) -> object:
        try:
            data = json.loads(text)["data"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None  # no answer of a Prometheus
        return read_answer(data, "url")

    return Parsers((RunError,), lambda text: read_csv(text, "f.csv"), of_series, answered)


def _run_seeds() -> list[bytes]:
    lines = [f"2026/01/31 13:00:{each:02}.000, {each} %, {60 + each}.50 W, 345 MHz, 30, [N/A]\n" for each in range(60)]
    head = "timestamp, utilization.gpu [%], power.draw [W], clocks.sm [MHz], temperature.gpu, temperature.memory\n"
    series = [f'P{{gpu="0"}} {each} {each}.5\nU{{gpu="0"}} 7 {each}.5\n' for each in range(60)]
    answer = {"status": "success", "data": {"result": [{"metric": {"__name__": "P"}, "values": [[1.5, "70"]]}]}}
    own = "time,usage_ratio,power [mW],clock [GHz],temperature,work\n1.5,0.5,70000,1.2,40,tensor\n"
    return [each.encode() for each in (head + "".join(lines), "".join(series) + "# EOF\n", json.dumps(answer), own)]


_ANNOTATION: Final = (
    b'version: v1\nmig-configs:\n  selected:\n  - devices: ["0"]\n    mig-enabled: true\n'
    b"    mig-devices: [{name: 1g.10gb, position: 0, size: 1}, {name: 3g.40gb, position: 4, size: 4}]\n"
)


def _annotations() -> Parsers:
    """The instances that annotations of nodes ask for."""
    mig = mig_of(seeds.small_fleet().fleet.pools[0].device_type)
    assert mig is not None
    return Parsers((ValueError,), lambda text: annotated_layout(text, (None,) * 8, mig))


def _web_configs() -> Parsers:
    """Web configuration files; certificates in them cannot be read."""

    def read(text: str) -> object:
        def give(path: str) -> str:
            if path != "/web.yml":
                raise Unreadable("no such file")
            return text

        return read_web_config("/web.yml", give)

    return Parsers((ConfigurationError,), read)


def _fields(text: str) -> object:
    fields, _ = fields_from_json(text)
    return workload_from_fields(fields)


def _messages() -> Parsers:
    """Everything that takes one message of a line port, and what the rules make of it."""
    def with_grammar(parse: Callable[[bytes, Grammar], object], grammar: Grammar) -> Callable[[str], object]:
        return lambda text: parse(text.encode("latin-1", "replace"), grammar)

    def of_bytes(parse: Callable[[bytes], object]) -> Callable[[str], object]:
        return lambda text: parse(text.encode("latin-1", "replace"))

    def fault(text: str) -> object:
        return fault_from_fields(load_object(text.encode("latin-1", "replace")))

    def workload(text: str) -> object:
        return workload_from_fields(load_object(text.encode("latin-1", "replace")))

    calls = [with_grammar(parse, grammar) for parse in (parse_words, parse_json_line) for grammar in seeds.GRAMMARS]
    calls += [of_bytes(parse) for parse in (
        parse_bare_workload, parse_bare_request, parse_bare_ask, parse_bare_work, parse_bare_result,
        parse_client_message, parse_backend_message, load_object,
    )]  # fmt: skip
    return Latin1Parsers((ProtocolError, Refused, ValueError), *calls, _framing, fault, workload, _fields)


class Latin1Parsers(Parsers):
    """Gives the bytes as the characters of the same numbers, so that calls can have them back."""

    def run(self, data: bytes) -> str:
        """The answers of all."""
        return super().run(data.decode("latin-1").encode())


def _framing(text: str) -> object:
    """The same messages whether bytes come at once or one by one."""
    data = text.encode("latin-1", "replace")[:3000]
    assert _opened(data, len(data) or 1) == _opened(data, 1)
    return None


def _opened(data: bytes, length: int) -> object:
    opening = Opening()
    try:
        for start in range(0, len(data), length):
            found = opening.open(data[start : start + length])
            if found is not None:
                return found[:2]
    except ProtocolError as error:
        return error.code
    return opening.likely_dialect()


class Heads:
    """The parser of HTTP heads."""

    def run(self, data: bytes) -> str:
        """Parse it."""
        limits = HttpLimits()

        def parse() -> object:
            found = read_head(data, limits)
            if found is None:
                return None
            head, rest = found
            assert head.target.startswith(b"/") and head.fields.endswith(b"\n") and data.endswith(head.fields + rest)
            return head

        return answer_of(parse, (HttpError,))

    def stop(self) -> None:
        """Nothing is left."""


class Flags:
    """The programs' flags; arguments are split at NUL."""

    def run(self, data: bytes) -> str:
        """Parse them with each program."""
        arguments = data.decode("utf-8", "surrogateescape").split("\0")

        def refuse(path: str) -> str:
            raise ValueError(f"no {path[:40]!r}")

        def workload() -> object:
            options = WorkloadOptions({}, find=lambda pattern: ["/dev/dri/card0", "/dev/dri/card1"], read=refuse)
            return options.order(options.flags.parse(arguments))

        sets = [
            BackendOptions({}, "host").flags, ClientOptions().flags, DcgmOptions({}).flags,
            ExporterOptions().flags, FrontendOptions().flags,
        ]  # fmt: skip
        declared = (FlagError, HelpAsked)
        calls = [workload, *(lambda flags=flags: flags.parse(arguments) for flags in sets)]
        return "|".join(answer_of(call, declared) for call in calls)

    def stop(self) -> None:
        """Nothing is left."""


def _text_seeds() -> list[bytes]:
    return [text.encode() for text in seeds.TEXTS]


def _flag_words() -> tuple[bytes, ...]:
    words = seeds.words_of([b" ".join(seeds.arguments_of_programs())])
    return (*words, *(b"\0-" + word for word in words), *(text.encode() for text in seeds.TEXTS), b"\0", b"=", b"-h")


def _queue_logs() -> Parsers:
    """The log of a durable queue, which a crash may have left in any state: what is replayed replays again."""

    def replayed(text: str) -> object:
        log = text.encode("latin-1", "replace")
        first = replay(BytesIO(log))
        assert replay(BytesIO(log[: first.good_bytes])) == first
        return first.queue, len(first.jobs), first.last_job

    return Parsers((DamagedLog,), replayed)


def _queue_log_seeds() -> list[bytes]:
    job = LoggedJob(7, ("sleep", "0.1", "\ud800"), 5.0, 600, False, 1.7e9)
    states = [state_record(state, 7, losses=1, reason="lost") for state in JobState]
    head, accepted = head_record("media", 6), accepted_record(job, 1.7e9)
    return [head, head + accepted, *(head + accepted + state for state in states), head + accepted * 2, accepted]


TARGETS: Final = (
    Target("texts", _texts, _text_seeds, _text_seeds, rounds=2000),
    Target("rule files", _rules, seeds.rule_files, lambda: seeds.words_of(seeds.rule_files()), rounds=500),
    Target("web configurations", _web_configs, seeds.web_configs, lambda: seeds.words_of(seeds.web_configs())),
    Target("messages", _messages, lambda: [*seeds.protocol_lines(), *seeds.MESSAGES], seeds.line_words, rounds=2000),
    Target("queue logs", _queue_logs, _queue_log_seeds, lambda: seeds.words_of(_queue_log_seeds())),
    Target("HTTP heads", Heads, seeds.requests, lambda: seeds.words_of(seeds.requests()), rounds=2000),
    Target("flags", Flags, seeds.arguments_of_programs, _flag_words, rounds=1000),
    Target("annotations", _annotations, lambda: [_ANNOTATION], lambda: seeds.words_of([_ANNOTATION]), rounds=500),
    Target("runs", _runs, _run_seeds, lambda: seeds.words_of(_run_seeds()), rounds=500),
)
