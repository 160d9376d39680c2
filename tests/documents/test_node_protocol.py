"""doc/protocol-node.txt says what the code does."""

from __future__ import annotations

import re

import pytest
from twisted.internet.task import Clock

from fakedev.kubernetes.nodes.node_port import NodePortFactory
from fakedev.kubernetes.nodes.node_view import (
    MAX_ALLOCATIONS,
    MAX_PARTS,
    MAX_VIEW_BYTES,
    NODE_GRAMMAR,
    NODE_VERBS,
    NodeView,
    ViewedSlot,
)
from fakedev.lines.framing import MAX_BYTES
from fakedev.lines.grammar import CODES
from fakedev.lines.json_lines import MAX_LEVELS, parse_json_line
from fakedev.node import agent, service_link
from fakedev.node import service_link as conversation
from tests.support.kube.node_service import GPU, MemoryNodeService
from tests.support.paths import DOCUMENTS
from tests.support.wire.line_peers import connect

TEXT = (DOCUMENTS / "protocol-node.txt").read_text(encoding="utf-8")
COMMANDS = TEXT[TEXT.index("\nCommands\n") : TEXT.index("\nExamples\n---")]
EXAMPLES = TEXT[TEXT.index("\nExamples\n---") :]
#: The node of the examples.
NODE = NodeView("a", {GPU: (ViewedSlot("GPU-1", 0), ViewedSlot("GPU-2", 1, "XID 79"))})


@pytest.mark.parametrize("verb", NODE_VERBS, ids=lambda verb: verb.name)
def test_every_verb_and_argument(verb):
    """Each verb has its section, with its form in words, and its arguments in JSON."""
    section = re.search(rf"\n\n({verb.name}\b.*?)(?=\n\n[a-z]|\Z)", COMMANDS, re.DOTALL)[1]
    assert section.startswith(verb.usage + "\n")
    json_form = re.search(r'^\{"op".*?\}$', section, re.DOTALL | re.MULTILINE)[0]
    request = parse_json_line(json_form.encode(), NODE_GRAMMAR)
    assert request.verb == verb.name
    assert set(request.arguments) == {a.name for a in verb.arguments} | {flag.name for flag in verb.flags}


#: Those that other ports have, too.
SHARED = ("help", "auth")


@pytest.mark.parametrize("verb", [node_verb.name for node_verb in NODE_VERBS if node_verb.name not in SHARED])
def test_every_verb_has_an_example(verb):
    """In words or in JSON."""
    assert re.search(rf'^    ({verb}\b|{{"op":"{verb}")', EXAMPLES, re.MULTILINE)


@pytest.mark.parametrize("way", ["words", "JSON lines"])
def test_an_example(way):
    """Each line of the peer is answered as the lines below it say."""
    example = EXAMPLES[EXAMPLES.index(f"\nIn {way}") :].split("\n\n")[1]
    peer, transport = connect(NodePortFactory(MemoryNodeService(NODE), Clock()))
    for request, answers in re.findall(r"^    (.*)\n((?:\S.*(?:\n|\Z))*)", example, re.MULTILINE):
        transport.clear()
        peer.dataReceived(request.encode() + b"\n")
        assert transport.value().decode().splitlines() == answers.splitlines()


def test_every_code():
    """The table of errors is the closed list, in its order."""
    table = TEXT[TEXT.index("CODE is one of") : TEXT.index("Every verb may be answered")]
    assert tuple(re.findall(r"^   ([a-z-]+) {2,}", table, re.MULTILINE)) == CODES


def test_the_limits():
    """The numbers of the document are those of the code."""
    for text in (
        f"   {MAX_BYTES} bytes", f"   {MAX_VIEW_BYTES} bytes", f"   {MAX_PARTS}  ", f"   {MAX_ALLOCATIONS:,} ",
        f"   {MAX_LEVELS} levels",
    ):  # fmt: skip
        assert text in TEXT
    life = " ".join(TEXT[TEXT.index("fakedev-node without the service") :].split())
    assert f"after {service_link._FIRST_WAIT_SECONDS:g} s" in life
    assert f"at most {service_link._LAST_WAIT_SECONDS:g} s" in life
    assert f"after {conversation.SILENT_SECONDS:g} s in which" in life
    assert f"for {conversation.ANSWER_SECONDS:g} s more" in life
    assert f"for {agent.KEEP_SECONDS:g} s from the last line" in life
