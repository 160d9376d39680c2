"""The pytest plugin in projects of others, with real services."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from textwrap import indent

import pytest

from tests.support.paths import ROOT
from tests.support.programs.processes import PATIENCE_SECONDS, clean_environment, console
from tests.testing.projects import run

pytestmark = pytest.mark.usefixtures("project")
pytest_plugins = ["pytester"]

CONFIG = """
version: 1
fleet: {pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}]}
web: [{listen: "127.0.0.1:9400", serve: metrics}]
"""


@pytest.mark.slow
def test_it_costs_nothing_where_no_test_asks(pytester: pytest.Pytester) -> None:
    """No other module of fakedev is imported, nor what they need; the marker and the options are there."""
    pytester.makepyfile("""
        import sys
        import pytest

        @pytest.mark.fakedev(config="unused.yaml")
        def test_modules():
            heavy = {"twisted", "numpy", "yaml", "orjson", "prometheus_client"} & set(sys.modules)
            assert not heavy
            found = {name for name in sys.modules if name.split(".")[0] == "fakedev"}
            assert found == {"fakedev", "fakedev.pytest_plugin"}
    """)
    run(pytester, "--strict-markers").assert_outcomes(passed=1)
    shown = run(pytester, "--help").stdout.str()
    assert "--fakedev-timeout=SECONDS" in shown
    assert "--fakedev-keep" in shown


@pytest.mark.real
@pytest.mark.slow
def test_fleets(pytester: pytest.Pytester) -> None:
    """The default, a configuration with an identity and values, several fleets; nothing is left of them."""
    pytester.makefile(".yaml", fleet=CONFIG)
    pytester.makepyfile("""
        import pytest

        def test_default(fakedev_fleet):
            fakedev_fleet.run("train", devices="dgx-0/0", profile="95:2:0")
            assert fakedev_fleet.advance("10m").tick == 600
            assert fakedev_fleet.scrape("dgx-0").value("DCGM_FI_DEV_GPU_UTIL", gpu=0) > 90
            assert len(fakedev_fleet.devices()) == 8

        @pytest.mark.fakedev(config="fleet.yaml", identity="dcgm@3.2.5", set=["fleet.seed=9"])
        def test_marked(fakedev_fleet, fakedev_fleet_factory):
            other = fakedev_fleet_factory(set=["fleet.pools.0.nodes=3"])
            assert [len(each.nodes()) for each in (fakedev_fleet, other)] == [2, 3]
            assert {each["identity"] for each in fakedev_fleet.nodes()} == {"dcgm@3.2.5"}
            assert fakedev_fleet.clock().speed == 0
            assert fakedev_fleet.reload()
            fakedev_fleet.advance("1s")
            assert len(fakedev_fleet.nodes()) == 2
    """)
    # A path that is too long for sockets.
    folder = "k" * 108
    run(pytester, f"--basetemp={folder}").assert_outcomes(passed=2)
    assert list(Path(pytester.path, folder).glob("fakedev[0-9]*")) == []


@pytest.mark.real
@pytest.mark.slow
def test_a_shared_fleet(pytester: pytest.Pytester) -> None:
    """Tests that ask for the same fleet share a service, and find it as new; nothing is left but of a failed test."""
    pytester.makefile(".yaml", fleet=CONFIG)
    pytester.makepyfile("""
        import os
        import signal
        import pytest

        pids = []

        def test_uses_it(fakedev_fleet_session):
            fleet = fakedev_fleet_session
            pids.append(fleet.pid)
            fleet.run("train", devices="dgx-0/0", profile="95:2:0")
            fleet.fault("fan", devices="dgx-0/0")
            fleet.advance("10m")
            fleet.speed(2)

        def test_finds_it_as_new(fakedev_fleet_session):
            fleet = fakedev_fleet_session
            assert fleet.pid == pids[0]
            assert (fleet.workloads(), fleet.faults(), fleet.clock().speed) == ([], [], 0)
            assert fleet.device("dgx-0/0")["quantities"]["temperature_celsius"] < 45

        @pytest.mark.fakedev(config="fleet.yaml")
        def test_another(fakedev_fleet_session):
            assert fakedev_fleet_session.pid != pids[0]
            assert len(fakedev_fleet_session.nodes()) == 2

        def test_kills_it(fakedev_fleet_session):
            assert fakedev_fleet_session.pid == pids[0]
            os.kill(fakedev_fleet_session.pid, signal.SIGKILL)

        def test_gets_a_new_one(fakedev_fleet_session):
            assert fakedev_fleet_session.pid != pids[0]
            fakedev_fleet_session.run("mine", devices="dgx-0/0", profile="95:2:0")
            assert False

        @pytest.mark.fakedev(cnfig="fleet.yaml")
        def test_wrong(fakedev_fleet_session): ...
    """)
    result = run(pytester, "--basetemp=kept")
    result.assert_outcomes(passed=4, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*cnfig: is nothing*", "tick * mine on dgx-0/0", "Run it again: fakedev render *"])
    assert "train" not in result.stdout.str().partition("fakedev journal")[2].partition("fakedev record")[0]
    assert len(list(Path(pytester.path, "kept").glob("fakedev[0-9]*/record.jsonl"))) == 1


@pytest.mark.slow
def test_simulations(pytester: pytest.Pytester) -> None:
    """Without a service: what the marker asks for, the words for a wrong one, the report of a failed test."""
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fakedev(identity="dcgm@3.2.5", set=["fleet.tick=500ms"])
        def test_marked(fakedev_sim):
            assert fakedev_sim.advance("1m").tick == 120

        @pytest.mark.fakedev(config="version: 1\\nflet: {}\\n")
        def test_wrong(fakedev_sim): ...

        def test_fails(fakedev_sim):
            fakedev_sim.fault("fan", devices="dgx-0/0")
            assert fakedev_sim.advance("1s").tick == 7
    """)
    result = run(pytester, "--basetemp=kept")
    result.assert_outcomes(passed=1, errors=1, failed=1)
    result.stdout.fnmatch_lines([
        "test_simulations.py:7: fakedev: configuration:2: unknown key 'flet'; did you mean 'fleet'?",
        "tick 0  fault  f1  fan on *", "Run it again: fakedev render *",
    ])  # fmt: skip
    assert len(list(Path(pytester.path, "kept").glob("fakedev[0-9]*/record.jsonl"))) == 1


@pytest.mark.real
@pytest.mark.slow
def test_programs_that_ask_for_boards(pytester: pytest.Pytester) -> None:
    """Each fleet has a file of its own; what is missing is said; a trace is played by a service, too."""
    pytester.makepyfile(f"""
        import os, subprocess
        import pytest

        TRACE = ["jobs", {str(ROOT / "etc" / "traces" / "small")!r}, "--usage", "60:20"]
        NVML = ["nvml={{}}", "fleet.pools.0.nodes=2"]

        @pytest.mark.fakedev(set=NVML)
        def test_nodes(fakedev_fleet, fakedev_fleet_factory):
            other = fakedev_fleet_factory(set=["nvml={{}}"])
            fakedev_fleet.run("train", devices="dgx-1/0", profile="95:0:0")
            fakedev_fleet.advance("1m")
            environments = [
                *(fakedev_fleet.nvml_env(node, with_library=False) for node in ("dgx-0", "dgx-1")),
                other.nvml_env(with_library=False),
            ]
            command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader", "-i", "0"]
            shown = [subprocess.check_output(command, env=each, text=True) for each in environments]
            assert [each.strip() for each in shown] == ["0 %", "95 %", "0 %"]
            assert "LD_LIBRARY_PATH" not in set(environments[0]) - set(os.environ)

        def test_none(fakedev_fleet):
            fakedev_fleet.nvml_env()

        @pytest.mark.fakedev(set=NVML)
        def test_which(fakedev_fleet):
            fakedev_fleet.nvml_env()

        @pytest.mark.fakedev(replay=TRACE)
        def test_trace(fakedev_fleet):
            fakedev_fleet.advance("5m")
            assert len(fakedev_fleet.workloads()) > 2

        @pytest.mark.fakedev(replay=[*TRACE, "--set", "flet=1"])
        def test_wrong_trace(fakedev_fleet): ...
    """)
    result = run(pytester)
    result.assert_outcomes(passed=2, failed=2, errors=1)
    result.stdout.fnmatch_lines([
        "*fakedev: --set flet: unknown key 'flet'; did you mean 'fleet'?",
        'E * there is no file *: a service writes it with nvml: {} *; for a test, set=*',
        "E * the file has 2 nodes: choose one with nvml_env(NODE): dgx-0, dgx-1",
    ])  # fmt: skip


@pytest.mark.real
@pytest.mark.slow
def test_the_examples_of_the_document(pytester: pytest.Pytester) -> None:
    """Each runs as it is written; that of the client with the address of a fleet."""
    text = (ROOT / "doc" / "testing.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    tests = [example for example in examples if "def test_" in example]
    client = [each.replace('"http://127.0.0.1:9400"', "fakedev_fleet.url") for each in examples if each not in tests]
    tests += [f"def test_client(fakedev_fleet):\n{indent(each, '    ')}" for each in client]
    for number, test in enumerate(tests):
        Path(pytester.path, f"test_{number}.py").write_text(test)
    pytester.makefile(".yaml", **{"four-nodes": CONFIG.replace("[a, b]", "[a, b, c, d]")})
    run(pytester, "-p", "twisted").assert_outcomes(passed=len(examples))


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.requires_program("curl", "python3")
def test_the_script_of_the_document(short_folder: Path) -> None:
    """It waits for the service, and reads its page."""
    text = (ROOT / "doc" / "testing.md").read_text(encoding="utf-8")
    (script,) = (each for each in re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE) if "kill" in each)
    program = short_folder / "fakedev"
    program.write_text(f"#!/bin/sh\nexec {shlex.join(console('fakedev'))} \"$@\"\n")
    program.chmod(0o755)
    environment = clean_environment(PATH=f"{short_folder}:{os.environ['PATH']}", RUNTIME_DIRECTORY=str(short_folder))
    done = subprocess.run(
        ["sh", "-c", script], cwd=short_folder, env=environment, capture_output=True, text=True, check=True,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.stdout.startswith("# HELP DCGM_FI_DEV_"), done.stdout


@pytest.mark.real
@pytest.mark.slow
def test_each_test_has_a_service_of_its_own(pytester: pytest.Pytester) -> None:
    """Made by the same starter, with the environment of the test; when the starter has died, by another one."""
    pytester.makepyfile("""
        import os, signal, subprocess

        POOL = "{name: p, nodes: [a], device: h100, devices-per-node: 1, identity: dcgm}"
        CONFIG = "version: 1\\nfleet:\\n  seed: ${SEED}\\n  pools: [" + POOL + "]\\n"
        starters = []

        def starter_of(fleet):
            return int(subprocess.check_output(["ps", "-o", "ppid=", "-p", str(fleet.pid)]))

        def use(fleet):
            assert fleet.workloads() == fleet.faults() == fleet.journal() == []
            fleet.run("train", devices="a/0", profile="95:0:0")
            assert fleet.advance("30s").tick == 30
            starters.append(starter_of(fleet))
            return fleet.page()

        def test_seeds(fakedev_fleet_factory, monkeypatch):
            pages = []
            for seed in ("7", "8", "7"):
                monkeypatch.setenv("SEED", seed)
                pages.append(use(fakedev_fleet_factory(config=CONFIG)))
            assert pages[0] == pages[2] != pages[1]
            assert len(set(starters)) == 1
            os.kill(starters[0], signal.SIGKILL)

        def test_after(fakedev_fleet_factory, monkeypatch):
            monkeypatch.setenv("SEED", "7")
            use(fakedev_fleet_factory(config=CONFIG))
            assert len(set(starters)) == 2
    """)
    run(pytester).assert_outcomes(passed=2)
