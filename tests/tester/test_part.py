"""The tester as a part of the program."""

from __future__ import annotations

import json
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.application import SMALL, application

LOAD = (
    SMALL
    + """
queues: {names: [sleep], listen-clients: [/run/clients.sock], listen-backends: ["127.0.0.1:9999"]}
tester:
  plans:
    - {queue: sleep, frontend: /run/clients.sock, parallel: 3, most-parallel: 8}
    - {name: others, queue: sleep, frontend: /run/clients.sock, rate: 5/s}
"""
)


def test_the_load_begins_with_the_service() -> None:
    """Each plan looks for its frontend; the pages, the API and the metrics tell of both."""
    with application(LOAD) as app:
        assert [client[0] for client in app.reactor.unixClients] == ["/run/clients.sock"] * 2
        assert app.get("/tester/parallel?type=plain").body == b"3\n"
        assert [plan["plan"] for plan in app.json("/api/v1/tester")["plans"]] == ["sleep", "others"]
        families = list(text_string_to_metric_families(app.get("/-/metrics").body.decode()))
        told = [sample for family in families for sample in family.samples if sample.name == "fakedev_tester_parallel"]
        assert [(sample.labels, sample.value) for sample in told] == [({"plan": "sleep"}, 3.0)]


def test_reports_at_the_end(tmp_path: Path) -> None:
    """Written when the service stops; one that cannot be written is logged, without other effects."""
    (tmp_path / "out.json").write_text("an old report, open to all")
    (tmp_path / "out.json").chmod(0o644)
    with application(LOAD + f"  reports: [{tmp_path}/out.json, /nowhere/out.txt]\n") as app:
        app.tick(4)
        app.stop()
    told = json.loads((tmp_path / "out.json").read_text())
    assert (tmp_path / "out.json").stat().st_mode & 0o777 == 0o600
    assert (told["statistics"]["seconds"], sorted(told["plans"])) == (4.0, ["others", "sleep"])


def test_without_plans_there_is_no_tester() -> None:
    """Neither its pages nor its series."""
    with application(SMALL) as app:
        assert (app.get("/tester/stats").status, app.get("/api/v1/tester").status) == (404, 404)
        assert b"fakedev_tester" not in app.get("/-/metrics").body


def test_metrics_only() -> None:
    """An address that serves metrics only tells nothing of the load."""
    with application(
        LOAD.replace('web: ["127.0.0.1:9400"]', 'web: [{listen: "127.0.0.1:9400", serve: metrics}]')
    ) as app:
        assert (app.get("/tester/stats").status, app.get("/api/v1/tester").status) == (404, 404)
