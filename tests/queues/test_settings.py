"""The work queues of a configuration."""

# ruff: noqa: E501 - the table holds whole messages
from __future__ import annotations

import pytest

from fakedev.config.export import effective_text
from fakedev.queues.settings import BrokerSpec, QueueSpec
from tests.support.configurations import loaded, problems

SAFE = "web: []\nworkloads: {listen: []}\n"


def test_without_names_there_is_nothing() -> None:
    assert loaded(SAFE).queues is None
    assert loaded(SAFE + "queues: {names: [], listen-clients: ['*:1']}").queues is None


def test_a_list_of_names_is_enough() -> None:
    """The ports are where the original's are, on loopback."""
    queues = loaded(SAFE + "queues: {names: [sleep, media]}").queues
    assert queues is not None
    assert queues.broker == BrokerSpec((QueueSpec("sleep"), QueueSpec("media")))
    assert [entry.listen.display for entry in queues.clients + queues.backends] == ["127.0.0.1:9997", "127.0.0.1:9999"]
    assert (queues.drain_seconds, queues.log_interval_seconds) == (25.0, 0.0)


def test_all_that_can_be_said() -> None:
    text = """
queues:
  names:
    sleep: {max-waiting: 1000, retries: 2, run-time-limit: 90s, grace: 250ms}
    media:
  listen-clients: [{listen: "*:97", open: true}, runtime:c.sock]
  listen-backends: [{listen: /b.sock, mode: 666}]
  max-bytes: 1MiB
  window: 30s
  maxima: interval
  log-interval: 10s
  drain: 3s
  max-connections: 7
  message-timeout: 2s
"""
    queues = loaded(SAFE + text, environ={"XDG_RUNTIME_DIR": "/r"}).queues
    assert queues is not None
    assert queues.broker.queues == (QueueSpec("sleep", 1000, 2, 90.0, 0.25), QueueSpec("media"))
    assert (queues.broker.max_bytes, queues.broker.window_seconds) == (2**20, 30.0)
    assert (queues.broker.maxima, queues.broker.interval_seconds) == ("interval", 10.0)
    assert [entry.listen.display for entry in queues.clients] == ["*:97", "/r/fakedev/c.sock"]
    assert [(entry.listen.display, entry.listen.mode) for entry in queues.backends] == [("/b.sock", 0o666)]
    assert (queues.log_interval_seconds, queues.drain_seconds) == (10.0, 3.0)
    assert (queues.max_connections, queues.message_seconds) == (7, 2.0)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("{nam: [a]}", ["f.yaml:3: queues: unknown key 'nam'; did you mean 'names'?"]),
        ("{names: 3}", ["f.yaml:3: queues.names: must be a list of names or mapping of names to mappings, not '3'"]),
        ("{names: [a, a]}", ["f.yaml:3: queues.names: the queue 'a' is there twice"]),
        ("{names: [-a]}", ["f.yaml:3: queues.names.0: '-a' is no queue name: at most 100 characters that print, without blanks, quotes and = ? # \\, the first not -"]),
        ("{names: [a=b]}", ["f.yaml:3: queues.names.0: 'a=b' is no queue name: at most 100 characters that print, without blanks, quotes and = ? # \\, the first not -"]),
        ("{names: {'a b': {}}}", ["f.yaml:3: queues.names: 'a b' is no queue name: at most 100 characters that print, without blanks, quotes and = ? # \\, the first not -"]),
        ("{names: {a: {retrys: 1}}}", ["f.yaml:3: queues.names.a: unknown key 'retrys'; did you mean 'retries'?"]),
        ("\n  names: [a]\n  drain: long", ["f.yaml:5: queues.drain: 'long' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m"]),
        ("{drain: 3s}", ["f.yaml:3: queues.drain: there are no queues: give them in queues.names"]),
        ("{names: [a], listen-clients: ['*:9997']}", ["f.yaml:3: *:9997 lets other machines put requests into the queues: give it tokens:, listen on loopback or a UNIX socket, or allow it by open: true"]),
        ("{names: [a], listen-backends: ['*:1']}", ["f.yaml:3: *:1 lets other machines take the requests of the queues: give it tokens:, listen on loopback or a UNIX socket, or allow it by open: true"]),
        ("{names: [a], listen-backends: [9997]}", ["f.yaml:3: 127.0.0.1:9997 is listened on twice (first at default)"]),
        ("{names: [a], maxima: interval}", ["f.yaml:3: queues.maxima: interval needs the interval: give log-interval"]),
        ("{names: [a], maxima: last-scrape}", ["f.yaml:3: queues.maxima: must be one of window, interval, since-scrape, not 'last-scrape'; did you mean since-scrape?"]),
        (f"{{names: {[f'q{n}' for n in range(101)]}}}", ["f.yaml:3: queues.names: 101 queues, and 100 are the most"]),
        ("{names: [a], max-bytes: 1KiB}", ["f.yaml:3: queues.max-bytes: must be at least 128KiB"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(section: str, expected: list[str]) -> None:
    assert problems(SAFE + f"queues: {section}\n") == expected


def test_print_config_shows_the_queues() -> None:
    """What was written and what is the default, each with its origin; it can be read again."""
    text = SAFE + "queues: {names: {sleep: {retries: 2}}, drain: 1m}\n"
    shown = effective_text(loaded(text))
    assert "  names: {sleep: {retries: 2}}  # /conf/f.yaml:3\n" in shown
    assert "  drain: 1m  # /conf/f.yaml:3\n" in shown
    assert "  max-bytes: 268435456  # default\n" in shown
    again = loaded(shown).queues
    assert again == loaded(text).queues
