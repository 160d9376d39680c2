"""The package: seen by twistd from a checkout and installed, with its data; the files around it."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.programs.processes import PATIENCE_SECONDS, clean_environment, skip_or_fail, twistd

pytestmark = pytest.mark.real

SOURCE = ("fakedev", "twisted", "tests", "benchmarks", "doc", "etc", "systemd")
FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "Makefile", "Dockerfile", "ruff.toml")


def run(*command: str, environment: dict[str, str] | None = None, folder: Path | None = None) -> str:
    """Run a command to its end; what it wrote to standard output. A failure shows everything."""
    done = subprocess.run(
        command,
        env=environment or clean_environment(),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def lists_fakedev(help_text: str) -> bool:
    """Whether ``twistd --help`` tells of us."""
    return any(line.split()[:1] == ["fakedev"] for line in help_text.splitlines())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source: building must not leave anything in the checkout, nor find anything left there."""
    copy = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "dropin.cache", "*.egg-info", "_trial_temp*")
    for name in SOURCE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for name in FILES:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as ``pip install .`` builds it."""
    built = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(built), str(checkout)]
    if can_build_here():
        command.insert(4, "--no-build-isolation")
    done = subprocess.run(command, env=outside(), capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0 and not can_build_here():
        skip_or_fail(f"setuptools is too old here, and no other can be fetched: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A fresh virtual environment in which our dependencies are there and fakedev is not."""
    folder = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    site = run(str(folder / "bin" / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # Only the folder: the .pth files in it, such as that of an editable fakedev, are not read from there.
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder


def can_build_here() -> bool:
    """Whether this Python's own setuptools can make wheels."""
    try:
        import setuptools  # noqa: PLC0415
    except ImportError:
        return False
    return tuple(int(part) for part in setuptools.__version__.split(".")[:2]) >= (70, 1)


def outside() -> dict[str, str]:
    """An environment that does not know the checkout."""
    known = clean_environment()
    del known["PYTHONPATH"]
    return known


def installed_twistd(environment: Path) -> list[str]:
    """twistd run by the Python of an environment."""
    return [str(environment / "bin" / "python"), twistd()[1]]


def pip_install(environment: Path, *what: str) -> None:
    """Install into an environment without fetching anything."""
    run(
        *(sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "--quiet"),
        *("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", *what),
        environment=outside(),
    )


def test_a_bare_checkout(tmp_path: Path) -> None:
    """``PYTHONPATH=. twistd`` is enough; no reactor and no configuration are loaded for a list of programs."""
    assert lists_fakedev(run(*twistd(), "--help", folder=tmp_path))


def test_the_wheel_is_complete(wheel: Path) -> None:
    """Every module, the plugin, the catalog and the demo are in it; tests are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = {path.relative_to(ROOT).as_posix() for path in (ROOT / "fakedev").rglob("*") if path.is_file()}
    data = (".txt", ".yaml", ".json", ".html", ".js", ".css", ".svg")
    expected = {name for name in source if name.endswith((".py", *data))}
    assert expected <= names, expected - names
    assert "fakedev/config/demo.yaml" in names
    documents = {path.name for pattern in ("*.md", "*.txt") for path in (ROOT / "doc").glob(pattern)}
    assert {name.rpartition("/")[2] for name in names if "/share/doc/fakedev/" in name} == documents
    assert any(name.startswith("fakedev/catalog/devices/") for name in names)
    assert any(name.startswith("fakedev/catalog/identities/") for name in names)
    assert "twisted/plugins/fakedev_plugin.py" in names
    assert "twisted/__init__.py" not in names
    assert "twisted/plugins/__init__.py" not in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


def test_the_wheel_installed(wheel: Path, environment: Path, tmp_path: Path) -> None:
    """twistd lists fakedev, the console programs are there, the catalog and the demo can be read."""
    assert not lists_fakedev(run(*installed_twistd(environment), "--help", environment=outside(), folder=tmp_path))
    pip_install(environment, str(wheel))
    assert lists_fakedev(run(*installed_twistd(environment), "--help", environment=outside(), folder=tmp_path))
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    for line in parser["options.entry_points"]["console_scripts"].strip().splitlines():
        program = environment / "bin" / line.partition("=")[0].strip()
        assert os.access(program, os.X_OK), program
    fakedev = str(environment / "bin" / "fakedev")
    run(fakedev, "serve", "--check", environment=outside(), folder=tmp_path)
    printed = run(fakedev, "schema", environment=outside(), folder=tmp_path)
    assert printed == (ROOT / "fakedev" / "config" / "fakedev.schema.json").read_text(encoding="utf-8")


def test_an_editable_install(checkout: Path, environment: Path, tmp_path: Path) -> None:
    """``pip install -e .`` shows the plugin too, which an import finder would not."""
    if not can_build_here():
        skip_or_fail("setuptools is too old here to install without fetching another")
    pip_install(environment, "--editable", str(checkout))
    assert lists_fakedev(run(*installed_twistd(environment), "--help", environment=outside(), folder=tmp_path))


def test_the_source_archive_is_complete(checkout: Path, tmp_path: Path) -> None:
    """What is needed to test and run is in the archive, and the wheel can be made of it."""
    if not can_build_here():
        skip_or_fail("setuptools is too old here to build without fetching another")
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    run(sys.executable, "-c", build, environment=outside(), folder=checkout)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    for name in ("tests/support/programs/processes.py", "systemd/fakedev.service", "Makefile",
                 "fakedev/config/demo.yaml", "doc/running.md"):  # fmt: skip
        assert name in names, name
