"""What an exporter sends beside its metrics, as an identity's file says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.exporters.settings.catalog import Catalog
from fakedev.schema.files import Files
from fakedev.schema.places import Place, Report
from tests.support.application import application

IDENTITY = "name: mine\nbased-on: tpu@1\n"
FLEET = """
fleet: {{pools: [{{name: p, nodes: [n], devices-per-node: 1, identity: {folder}/mine.yaml}}]}}
web: [{{listen: "127.0.0.1:9400", serve: exporter}}]
workloads: {{listen: []}}
"""


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ('headers: {"X Y": z}', "headers: X Y: 'z' is no header"),
        ('headers: {X-Y: "a\\nb"}', "headers: X-Y: 'a\\nb' is no header"),
        ("health-headers: {Content-Length: '3'}", "health-headers: Content-Length is the server's own"),
        ("headers: {server: Go}", "headers: server is the server's own and cannot be given"),
    ],
)
def test_headers_that_cannot_be(tmp_path: Path, said: str, problem: str) -> None:
    """They would break the answer, or say what is not true."""
    (tmp_path / "mine.yaml").write_text(f"{IDENTITY}{said}\n")
    report = Report()
    Catalog(Files(environ={}), report, str(tmp_path)).identity("mine.yaml", Place("test"))
    assert str(report.sorted_problems()[0]).startswith(f"mine.yaml:3: {problem}")


def test_what_is_sent(tmp_path: Path) -> None:
    """The headers go with every answer of the exporter's; the title of the page at / is no markup."""
    said = 'headers: {X-One: "1"}\nhealth: fine\nhealth-headers: {X-Two: "2"}\nlanding: "<b> & co"\n'
    (tmp_path / "mine.yaml").write_text(IDENTITY + said)
    with application(FLEET.format(folder=tmp_path)) as app:
        start, health, metrics = map(app.get, ("/", "/health", "/metrics"))
        assert [each.headers.get("x-one") for each in (start, health, metrics)] == ["1"] * 3
        assert [each.headers.get("x-two") for each in (start, health, metrics)] == [None, "2", None]
        assert health.body == b"fine"
        assert b"<h1>&lt;b&gt; &amp; co</h1>" in start.body


def test_an_exporter_without_such(tmp_path: Path) -> None:
    """There is nothing at /, and fakedev's own answer at /health."""
    (tmp_path / "mine.yaml").write_text(IDENTITY)
    with application(FLEET.format(folder=tmp_path)) as app:
        assert app.get("/").status == 404
        assert app.json("/health") == {"status": "healthy"}
