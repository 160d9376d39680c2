"""Prints the record of a service (serve --record) as a scenario."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fakedev.base.console import write_text
from fakedev.base.errors import Refused, plain_reason
from fakedev.base.given_files import read_given
from fakedev.base.units import format_duration
from fakedev.config.load import load
from fakedev.config.start import compiled_source
from fakedev.fleet.events import Reload, Stamped
from fakedev.fleet.record import INCOMPLETE, read_record, without_incomplete_line
from fakedev.fleet.spec.limits import RecordHead
from fakedev.scenario.from_record import timeline_of
from fakedev.schema.files import DEMO_FILE, Files
from fakedev.schema.options import Failed, Operand, Option, command, write_file

_PROGRAM: Final = "fakedev scenario from"


@command(
    _PROGRAM,
    __doc__,
    Operand("record", "RECORD", "a record (serve --record)"),
    Option("output", "FILE", "write this file, and another one next to it for each reload"),
)
def from_record(options: Namespace) -> None:
    """Print the scenario.

    :raises ConfigurationError: when the configuration of the record cannot be used.
    """
    try:
        head, events = _events(options.record)
        configuration = load(head.config, Files(head.files, head.environment), head.overrides, head.text)
        reloads = _reloads(events, options.output)
        tick_seconds = configuration.fleet.tick_seconds
        files = {sequence: os.path.basename(path) for sequence, (path, _) in reloads.items()}
        text = "".join(_scenario(head, events, list(timeline_of(events, tick_seconds, files)), tick_seconds))
    except (Refused, ValueError) as error:
        raise Failed(f"{options.record}: {error}", 2) from None
    if not options.output:
        write_text(sys.stdout, text, is_document=True)
        return
    for path, content in [(options.output, text), *reloads.values()]:
        write_file(path, content)


def _events(path: str) -> tuple[RecordHead, list[Stamped]]:
    try:
        given = read_given(path)
        text = without_incomplete_line(given)
        if text != given:
            write_text(sys.stderr, f"fakedev scenario from: note: {path}: {INCOMPLETE}\n")
        return read_record(text, compiled_source)
    except OSError as error:
        raise ValueError(plain_reason(error)) from None


def _reloads(events: Sequence[Stamped], output: str | None) -> dict[int, tuple[str, str]]:
    """The file for each reload, and its text, by the sequence number of its event.

    :raises ValueError: when there is a reload and no name to make theirs of.
    """
    found = {event.sequence: event.event.source for event in events if isinstance(event.event, Reload)}
    if found and not output:
        raise ValueError("it has reloads, whose configurations need files of their own: give --output FILE")
    stem = os.path.splitext(output or "")[0]
    texts = {sequence: _text_of(source) for sequence, source in found.items()}
    return {sequence: (f"{stem}.reload-{number}.yaml", texts[sequence]) for number, sequence in enumerate(texts, 1)}


def _text_of(head: RecordHead) -> str:
    return head.text if head.text is not None else head.files[head.config or DEMO_FILE]


def _scenario(
    head: RecordHead, events: Sequence[Stamped], entries: Sequence[object], tick_seconds: float
) -> Iterator[str]:
    last = max((event.tick for event in events), default=0) + 1
    yield f"# Made by {_PROGRAM}, of a record of version {head.version}.\n"
    keys = {"for": format_duration(max(last * tick_seconds, 60.0))}
    overrides = [*head.overrides, f"fleet.epoch={head.epoch_seconds!r}"]
    yield from scenario_lines(keys, overrides, _text_of(head), entries)


def scenario_lines(
    keys: Mapping[str, object], overrides: Sequence[str], configuration: str, entries: Sequence[object]
) -> Iterator[str]:
    """The lines of a scenario file; JSON is YAML.

    :param keys: of its section ``scenario``.
    :param configuration: the text of its configuration.
    """
    yield f"scenario: {json.dumps(keys)}\n"
    yield f"set: {json.dumps(overrides)}\n"
    yield "config:\n"
    yield from (f"  {line}" if line.strip() else "\n" for line in configuration.splitlines(keepends=True))
    yield "\ntimeline:\n" if entries else "\ntimeline: []\n"
    yield from (f"  - {json.dumps(entry)}\n" for entry in entries)
