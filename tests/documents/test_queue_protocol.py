"""doc/protocol-queue.txt says what the code does."""

from __future__ import annotations

import json
import re

import pytest

from fakedev.lines.framing import MAX_BYTES
from fakedev.lines.grammar import CODES
from fakedev.lines.json_lines import MAX_LEVELS, parse_json_line
from fakedev.queues.bare import MAX_BARE_BYTES, parse_bare_ask, parse_bare_request, parse_bare_result, parse_bare_work
from fakedev.queues.job import Outcome
from fakedev.queues.job_ends import ARGUMENT_BYTES, JOB_BYTES, MAX_PER_OWNER
from fakedev.queues.queue import MAX_BURIED, MAX_BURIED_BYTES
from fakedev.queues.settings import MIB, BrokerSpec, QueueSpec
from fakedev.queues.verbs import QUEUE_BACKEND_GRAMMAR, QUEUE_BACKEND_VERBS, QUEUE_CLIENT_GRAMMAR, QUEUE_CLIENT_VERBS
from tests.support.paths import DOCUMENTS
from tests.support.queues.queue_transcripts import QueuePorts, Transcript

TEXT = (DOCUMENTS / "protocol-queue.txt").read_text(encoding="utf-8")
CLIENT = TEXT[TEXT.index("\nVerbs of the client port\n") : TEXT.index("\nVerbs of the backend port\n")]
BACKEND = TEXT[TEXT.index("\nVerbs of the backend port\n") : TEXT.index("\nBare JSON\n---")]
BARE = TEXT[TEXT.index("\nBare JSON\n---") : TEXT.index("\nExamples\n---")]
EXAMPLES = TEXT[TEXT.index("\nExamples\n---") :]
OWN = [(CLIENT, QUEUE_CLIENT_GRAMMAR, verb) for verb in QUEUE_CLIENT_VERBS if verb not in QUEUE_BACKEND_VERBS]
ALL = [*OWN, *((BACKEND, QUEUE_BACKEND_GRAMMAR, verb) for verb in QUEUE_BACKEND_VERBS)]


@pytest.mark.parametrize(("part", "grammar", "verb"), ALL, ids=[verb.name for _, _, verb in ALL])
def test_every_verb_and_argument(part, grammar, verb):
    """Each verb has its section, with its form in words, and its arguments in JSON."""
    section = re.search(rf"\n\n({verb.name}\b.*?)(?=\n\n[a-z]|\Z)", part, re.DOTALL)[1]
    assert section.startswith(verb.usage + "\n")
    json_form = re.search(r'^\{"op".*?\}$', section, re.DOTALL | re.MULTILINE)[0]
    request = parse_json_line(json_form.encode(), grammar)
    assert request.verb == verb.name
    assert set(request.arguments) == {argument.name for argument in verb.arguments}


@pytest.mark.parametrize(("part", "grammar", "verb"), ALL, ids=[verb.name for _, _, verb in ALL])
def test_every_verb_has_an_example(part, grammar, verb):
    """In words or in JSON, on the port of the verb or, where both have it, on any."""
    assert re.search(rf'^    (client|backend)> ({verb.name}\b|{{"op":"{verb.name}")', EXAMPLES, re.MULTILINE)


@pytest.mark.parametrize("example", re.findall(r"(?:^    .*\n)+", EXAMPLES, re.MULTILINE), ids=["words", "JSON lines"])
def test_an_example(example):
    """Played on both ports, it is answered as it says."""
    Transcript(QueuePorts()).play(example)


def test_every_code():
    """The table of errors is the closed list, in its order."""
    table = TEXT[TEXT.index("CODE is one of") : TEXT.index("Every verb may be answered")]
    assert tuple(re.findall(r"^   ([a-z-]+) {2,}", table, re.MULTILINE)) == CODES


def test_every_outcome():
    """And no other."""
    table = TEXT[TEXT.index("OUTCOME     ") : TEXT.index("\n\nLimits\n")]
    assert re.findall(r"^   ([a-z]+) {2,}", table, re.MULTILINE) == [outcome.value for outcome in Outcome]


def test_the_numbers():
    """Limits and defaults of the document are those of the code."""
    limits = TEXT[TEXT.index("\nLimits\n") : TEXT.index("\nErrors\n")]
    for number in (f"{MAX_BYTES} bytes", f"{MAX_LEVELS} levels", f"{MAX_BARE_BYTES} bytes", f"{MAX_BURIED} "):
        assert f"\n   {number}" in limits
    assert f"\n   {BrokerSpec(()).max_bytes // MIB} MiB " in limits
    counted = f"with its arguments, {ARGUMENT_BYTES} bytes for each of them, and {JOB_BYTES} bytes"
    assert counted in " ".join(limits.split())
    assert f"\n   {MAX_BURIED_BYTES // MIB} MiB " in limits
    assert f"\n   {MAX_PER_OWNER} " in limits
    assert f"`grace` ({QueueSpec('').grace_seconds:g} s)" in TEXT


def test_the_bare_examples():
    """Each has the meaning that the text gives."""
    examples = re.findall(r"^\{ .*?\}$", BARE, re.DOTALL | re.MULTILINE)
    parsers = (
        parse_bare_request,
        parse_bare_result,
        parse_bare_ask,
        parse_bare_work,
        parse_bare_work,
        parse_bare_result,
    )
    for example, parse in zip(examples, parsers, strict=True):
        assert not parse(example.encode()).notes, example


def test_json_answers_are_json():
    """Every answer that is shown whole can be read, without the omitted parts."""
    shown = re.findall(r'^   (\{(?:.(?!\n\n))*?\})\n(?!    ")', CLIENT + BACKEND, re.DOTALL | re.MULTILINE)
    assert len(shown) > 15
    for answer in shown:
        json.loads(answer.replace(",...", ""))
