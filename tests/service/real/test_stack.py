"""``make stack``: each address that it prints answers, and so does Prometheus every query of the dashboards."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_twisted
from twisted.internet.error import ConnectError

from tests.exporters.real.test_prometheus import asked
from tests.manifests.test_grafana import dashboards
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import eventually, fetch
from tests.support.programs.ports import free_port
from tests.support.programs.processes import StartAsync, clean_environment

pytestmark = [pytest.mark.real, pytest.mark.long]
#: The faults of the stack begin within a minute of simulated time.
SPEED = 20
#: Wall seconds until all have begun, on a slow machine.
PATIENCE = 120


@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_every_query(start_async: StartAsync, tmp_path: Path) -> None:
    """None is empty, neither of panels nor of marks, on addresses of its own and at a higher speed."""
    web, clients, backends, where = (f"127.0.0.1:{free_port()}" for _ in range(4))
    environment = clean_environment(
        PROMETHEUS=where, TARGET=web, INTERVAL="500ms", FAKEDEV_BACKENDS=backends, TMPDIR=str(tmp_path)
    )
    settings = [f'web=["{web}"]', f'queues.listen-clients=["{clients}"]', f'queues.listen-backends=["{backends}"]',
                f"fleet.speed={SPEED}"]  # fmt: skip
    command = [str(ROOT / "etc" / "stack" / "run.sh"), *(word for each in settings for word in ("--set", each))]
    program = start_async(command, environment=environment)
    # None of these matches a series that lacks the label.
    values = {"__rate_interval": "1m", "node": "dgx-[0-3]", "gpu": "[0-7]", "pool": "serving|shared", "queue": "gpu"}
    waiting = [
        (title, re.sub(r"\$([a-z_]+)", lambda name: values[name[1]], expression))
        for title, expression in dashboards().queries()
    ]
    assert len(waiting) > 100

    async def all_answered() -> bool:
        assert program.exit_code is None, program.stderr
        try:
            if (await fetch(where, "/-/ready")).status != 200:
                return False
        except ConnectError:
            return False
        waiting[:] = [each for each in waiting if not await asked(where, each[1])]
        return not waiting

    await program.wait_for_text("^C stops all")
    shown = re.findall(r"^(?:fakedev|graphs|alerts|targets): +(\S+)$", program.stdout, flags=re.MULTILINE)
    assert len(shown) == 4
    for page in map(urlsplit, shown):
        assert (await fetch(page.netloc, f"{page.path}?{page.query}")).status == 200, page
    # The fleet has no mark of this kind by itself. A counter has an increase once Prometheus has seen it.
    await eventually(lambda: asked(where, 'fakedev_journal_entries_total{kind="clock"}'), "the counter is seen")
    assert (await fetch(web, "/api/v1/clock", json.dumps({"speed": SPEED + 1}), "PATCH")).status == 200

    try:
        await eventually(all_answered, "every query has an answer", PATIENCE)
    except pytest.fail.Exception:
        pytest.fail(f"no answer to {waiting}")
    assert await program.stop() == 0
    assert list(tmp_path.iterdir()) == []
