"""Several identities over one state, at separate paths, and pages that hold their numbers for some time."""

from __future__ import annotations

import re

import pytest

from fakedev.commands.main import main
from fakedev.config.load import load
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from tests.support.application import application

CONFIGURATION = """
version: 1
fleet:
  tick: 1s
  exact-sensors: true
  pools:
    - {name: a, nodes: [node-1], device: h100, devices-per-node: 1, identity: dcgm}
web:
  - listen: "127.0.0.1:9400"
    pages:
      - {path: /intel/metrics, identity: xpumanager}
      - {path: /slow/metrics, identity: dcgm@4.8.3, hold: 30s}
  - {listen: "127.0.0.1:9401", hold: 10s}
workloads:
  listen: []
  base: [{name: w, devices: all, profile: "30:5:0"}]
"""


def number(page: str, name: str) -> float:
    """The number of the one line of a family."""
    (found,) = re.findall(rf"^{name}\{{.*\}} (\S+)$", page, re.MULTILINE)
    return float(found)


def test_one_device_two_identities() -> None:
    """Both tell the same story, each in its units."""
    with application(CONFIGURATION) as app:
        app.tick(5)
        ours, intels = (app.get(path).body.decode() for path in ("/metrics", "/intel/metrics"))
        energy = number(ours, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION") / 1000
        assert number(intels, "xpum_energy_joules_total") == pytest.approx(energy, abs=0.001)
        active = number(ours, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
        # Of full usage the graphics engine is active for 0.9956.
        assert number(intels, "xpum_engine_ratio") == pytest.approx(active / 0.9956, abs=1e-5)


def test_pages_that_hold() -> None:
    """They show the last tick at a multiple of their time, with or without a request at that time."""
    with application(CONFIGURATION) as app:
        shown = []
        for ticks in (7, 24, 30):
            app.tick(ticks)
            answers = app.get("/slow/metrics"), app.get("/metrics", place=1), app.get("/nodes/node-1/metrics", place=1)
            shown.append([int(answer.headers["x-fakedev-tick"]) for answer in (*answers, app.get("/metrics"))])
        assert shown == [[0, 0, 0, 7], [30, 30, 30, 31], [60, 60, 60, 61]]
        assert app.get("/slow/metrics").body == app.get("/slow/metrics").body


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/metrics/more", "path: /metrics is taken"),
        ("/api/x", "path: /api is taken"),
        ("intel", "path: 'intel' is no path, as /amd/metrics"),
        ("/x/", "path: '/x/' is no path"),
        ("/x/../y", "path: '/x/../y' is no path"),
        ("/intel/metrics/deeper", "path: /intel/metrics/deeper and /intel/metrics cannot both be pages"),
    ],
)
def test_paths_that_cannot_be(path: str, reason: str) -> None:
    """What is taken, what is no path, and what is below another page."""
    text = CONFIGURATION.replace("/slow/metrics", path)
    with pytest.raises(ConfigurationError) as error:
        load(None, Files(environ={}), text=text)
    assert [line for line in str(error.value).splitlines() if reason in line]


def test_an_identity_that_holds(tmp_path) -> None:
    """As its file says, at every place where it is shown."""
    (tmp_path / "slow.yaml").write_text("name: slow\nbased-on: dcgm\nhold: 30s\n")
    text = CONFIGURATION.replace("identity: dcgm}", f"identity: {tmp_path}/slow.yaml}}")
    with application(text) as app:
        app.tick(40)
        assert app.get("/metrics").headers["x-fakedev-tick"] == "30"
        assert app.get("/metrics", place=1).headers["x-fakedev-tick"] == "40"


def test_rendered_without_sockets(tmp_path) -> None:
    """``fakedev render`` shows the same held numbers."""
    (tmp_path / "slow.yaml").write_text("name: slow\nbased-on: dcgm\nhold: 10s\n")
    (tmp_path / "fakedev.yaml").write_text(
        CONFIGURATION.replace("identity: dcgm}", "identity: ./slow.yaml}").replace("30:5:0", "sine(50,40,60s):0:0")
    )
    folder = tmp_path / "pages"
    arguments = ["--config", str(tmp_path / "fakedev.yaml"), "--for", "20s", "--every", "5s", "--output", str(folder)]
    assert main(["render", *arguments]) == 0
    pages = {int(path.stem): path.read_text() for path in folder.glob("*.prom")}
    assert sorted(pages) == [0, 5, 10, 15, 20]
    assert pages[0] == pages[5] != pages[10] == pages[15] != pages[20]


def test_post_reads_the_metrics_of_dcgm_exporter() -> None:
    """On an exporter's address, as from any client; an identity that says nothing of it allows only GET and HEAD."""
    web = 'web: [{listen: "127.0.0.1:9400", serve: exporter}]\nworkloads: {listen: []}\n'
    text = CONFIGURATION.split("web:", maxsplit=1)[0] + web
    with application(text) as app:
        headers = "Host: gpu-7:9400\r\nOrigin: http://elsewhere\r\n"
        posted = app.ask("POST", "/metrics", b"anything", headers=headers)
        assert (posted.status, posted.body) == (200, app.get("/metrics").body)
        assert b'<a href="./metrics">' in app.get("/").body
        assert b'<a href="./health">' in app.get("/").body
    with application(text.replace("identity: dcgm", "identity: run-ai")) as app:
        assert app.ask("POST", "/metrics", {}).headers["allow"] == "GET, HEAD"
