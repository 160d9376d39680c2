"""doc/protocol-workload.txt says what the code does."""

from __future__ import annotations

import re

import pytest

from fakedev.fleet.spec.quantities import ASKABLE, COUNTED, metric_word
from fakedev.fleet.spec.value_functions import FORMS
from fakedev.fleet.spec.work_kinds import WORK_KINDS
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR, WORKLOAD_VERBS, parse_bare_workload
from fakedev.lines.framing import MAX_BYTES
from fakedev.lines.grammar import CODES
from fakedev.lines.json_lines import MAX_LEVELS, parse_json_line
from tests.support.paths import DOCUMENTS

TEXT = (DOCUMENTS / "protocol-workload.txt").read_text(encoding="utf-8")
COMMANDS = TEXT[TEXT.index("\nCommands\n") : TEXT.index("\nBare JSON\n")]
EXAMPLES = TEXT[TEXT.index("\nExamples\n---") :]


@pytest.mark.parametrize("verb", WORKLOAD_VERBS, ids=lambda verb: verb.name)
def test_every_verb_and_argument(verb):
    """Each verb has its section, which names its arguments, in words and in JSON."""
    section = re.search(rf"\n\n({verb.name}\b.*?)(?=\n\n[a-z]|\Z)", COMMANDS, re.DOTALL)[1]
    for argument in verb.options:
        form = f"{argument.name_in_words}="
        assert form in section, f"doc/protocol-workload.txt: the section {verb.name} must name {form} in both forms"
    for flag in verb.flags:
        assert f"[{flag.name}]" in section
    json_form = re.search(r'^\{"op".*?\}$', section, re.DOTALL | re.MULTILINE)[0]
    request = parse_json_line(json_form.encode(), WORKLOAD_GRAMMAR)
    assert request.verb == verb.name
    assert set(request.arguments) == {a.name for a in verb.arguments} | {flag.name for flag in verb.flags}


@pytest.mark.parametrize("verb", WORKLOAD_VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_an_example(verb):
    """In words or in JSON; test_sessions.py runs the sessions."""
    assert re.search(rf'^    ({verb.name}\b|{{"op":"{verb.name}")', EXAMPLES, re.MULTILINE)


def test_every_value_function_and_kind():
    """The grammar's help and the document have those of the rules."""
    run = WORKLOAD_GRAMMAR.find("run")
    assert " ".join(run.notes).split()[9:] == [form.usage for form in FORMS.values()]
    summaries = {argument.name: argument.summary for argument in run.options}
    assert all(kind in summaries["kind"] for kind in WORK_KINDS)
    for name in FORMS:
        assert f"              {name}(" in TEXT
    kinds = COMMANDS[COMMANDS.index("\n   kind ") : COMMANDS.index("\n   node ")]
    assert [kind for kind in WORK_KINDS if kind not in kinds] == []


def test_every_metric():
    """The document names what workloads may ask for; errors by the rule of their names."""
    use = TEXT[TEXT.index("\nUSE ") : TEXT.index("\nSIZE ")]
    words = [metric_word(quantity) for quantity in ASKABLE if quantity not in COUNTED]
    assert [word for word in words if not re.search(rf"\b{word}\b", use)] == []


def test_every_code():
    """The table of errors is the closed list, in its order."""
    table = TEXT[TEXT.index("CODE is one of") : TEXT.index("Every verb may be answered")]
    assert tuple(re.findall(r"^   ([a-z-]+) {2,}", table, re.MULTILINE)) == CODES


def test_the_limits():
    """The numbers of the document are those of the code."""
    assert f"{MAX_BYTES} bytes" in TEXT
    assert f"{MAX_LEVELS} levels" in TEXT


def test_the_bare_example():
    """It is a workload."""
    example = TEXT[TEXT.index('{ "Name"') : TEXT.index('"Limits": null }') + 16]
    assert parse_bare_workload(example.encode()).arguments["devices"] == ["card0", "card1"]
