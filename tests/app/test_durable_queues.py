"""Durable queues as a part of the program: what a reload may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.application import SMALL, application
from tests.support.reloads import reload


def queues(names: str, folder: Path) -> str:
    """A configuration with these queues; FOLDER in them is a folder."""
    return SMALL + "queues:\n  drain: 1s\n  names: " + names.replace("FOLDER", str(folder)) + "\n"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("{a: {}}", "{a: {durable: FOLDER/a}}", ["a"]),
        ("{a: {durable: FOLDER/a}}", "{a: {}}", ["a"]),
        ("{a: {durable: FOLDER/a}}", "{a: {durable: FOLDER/b}}", ["a"]),
        ("{a: {}}", "{a: {}, b: {durable: FOLDER/b}}", ["b"]),
        ("{a: {}, b: {durable: FOLDER/b}}", "{a: {}}", ["b"]),
        ("{a: {durable: FOLDER/x}, b: {}}", "{a: {}, b: {durable: FOLDER/x}}", ["a", "b"]),
    ],
    ids=["added", "removed", "moved", "with a new queue", "with its queue", "given to another queue"],
)
def test_reload_that_changes_durable_is_refused(tmp_path: Path, before: str, after: str, changed: list[str]) -> None:
    """The key of each queue is named; the queues go on as they were, and the next reload may be applied."""
    with application(queues(before, tmp_path)) as app:
        client = app.client()
        assert client.say("put a 1") == ["ok 1"]
        answer = reload(app, queues(after, tmp_path))
        reasons = [f"queues.names.{name}.durable: has changed, which needs a restart" for name in changed]
        assert (answer.status, answer.body.decode().splitlines()[: len(changed)]) == (400, reasons)
        assert client.say("put a 2") == ["ok 2"]
        assert reload(app, queues(before, tmp_path)).status == 200


def test_reload_of_other_settings_keeps_the_log(tmp_path: Path) -> None:
    """Limits change, a queue without a log is added, and what was promised is there after a restart."""
    with application(queues("{a: {durable: FOLDER/a}}", tmp_path)) as app:
        client = app.client()
        client.say("put a 1")
        assert reload(app, queues("{a: {durable: FOLDER/a, retries: 3}, b: {}}", tmp_path)).status == 200
        assert client.say("put a 2", "put b 3") == ["ok 2", "ok 3"]
    with application(queues("{a: {durable: FOLDER/a}}", tmp_path)) as app:
        assert app.client().say("list a")[0] == "ok 2 lines"
