"""Environment variables that nothing reads are told; those that something reads are in one table."""

from __future__ import annotations

import re

import pytest

from fakedev.base.environment import VARIABLES, unknown_variables
from fakedev.base.errors import nearest_name
from tests.support.configurations import loaded
from tests.support.paths import ROOT


def test_unknown_variables() -> None:
    """The nearest one that there is; how to set a value of the configuration where none is near."""
    environ = {"FAKEDEV_SOKET": "/s", "FAKEDEV_URL": "h:1", "FAKEDEV__FLEET__SEED": "7", "HOME": "/"}
    environ["FAKEDEV_PORT"] = "1"
    assert dict(unknown_variables(environ)) == {
        "FAKEDEV_SOKET": "nothing reads this variable; did you mean FAKEDEV_SOCKET?",
        "FAKEDEV_PORT": "nothing reads this variable; a value of the configuration is FAKEDEV__SECTION__KEY, as "
        "FAKEDEV__FLEET__SEED",
    }
    assert not list(unknown_variables({"FAKEDEV_X": "1"}, ["FAKEDEV_X"]))


def test_services_of_kubernetes() -> None:
    """The variables that each pod has for a Service named fakedev are no mistakes."""
    service = {
        "FAKEDEV_SERVICE_HOST": "10.0.0.1",
        "FAKEDEV_SERVICE_PORT": "9400",
        "FAKEDEV_SERVICE_PORT_METRICS": "9400",
        "FAKEDEV_PORT": "tcp://10.0.0.1:9400",
        "FAKEDEV_EXPORTER_PORT_9999_TCP": "tcp://10.0.0.1:9999",
        "FAKEDEV_PORT_9400_TCP_PROTO": "tcp",
        "FAKEDEV_PORT_9400_TCP_ADDR": "10.0.0.1",
    }
    assert not list(unknown_variables(service))


def test_a_configuration_notes_them() -> None:
    """Except for those that it reads itself."""
    environ = {"FAKEDEV_SEED": "7", "FAKEDEV_FLEET_SEED": "7"}
    configuration = loaded("fleet: {seed: '${FAKEDEV_SEED}'}", environ=environ)
    assert [note.partition(";")[0] for note in configuration.notes] == [
        "environment FAKEDEV_FLEET_SEED: nothing reads this variable"
    ]


def test_the_table_is_complete() -> None:
    """All that the project's files name is in it, and all of it is in running.md."""
    patterns = ("fakedev/**/*.py", "etc/**/*", "tests/support/**/*.py", "tests/*.py", "benchmarks/*.py", "systemd/*")
    sources = [path for pattern in (*patterns, "Makefile", "Dockerfile", ".ci/*") for path in ROOT.glob(pattern)]
    texts = [path.read_text(encoding="utf-8") for path in sources if path.is_file() and path.suffix != ".pyc"]
    named = {name for text in texts for name in re.findall(r"FAKEDEV_[A-Z]+(?:_[A-Z]+)*(?![A-Z_])", text)}
    assert named == set(VARIABLES)
    page = (ROOT / "doc" / "running.md").read_text(encoding="utf-8")
    for name, meaning in VARIABLES.items():
        assert f"| `{name}` | {meaning} |\n" in page


@pytest.mark.parametrize(
    ("word", "nearest"),
    [("rtx4090", ""), ("h1000", "h100"), ("H100", "h100"), ("h100-sxm", "h100-sxm5-80gb"), ("300x", "mi300x"),
     ("fna", "fan")],
)
def test_nearest(word: str, nearest: str) -> None:
    """A name that was probably meant, or none: what only shares some letters is no help."""
    assert nearest_name(word, ["0x4905", "h100", "h100-sxm5-80gb", "h200", "mi300x", "nan", "fan"]) == nearest
