"""The options of fakedev-node, and how it ends when it cannot begin."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fakedev.fleet.spec.offers import Resources
from fakedev.node.main import main
from fakedev.node.options import Settings, parse
from fakedev.schema.peer_addresses import ClientTls, parse_address, with_tls
from tests.support.programs.processes import clean_environment

GOOD = ["--node", "a", "--service", "fakedev:9510"]


def test_defaults() -> None:
    """Those of a kubelet's own folders; the node is that of the pod."""
    assert parse(["--service", "[::1]:9510"], {"NODE_NAME": "b"}) == Settings(
        node="b",
        service=parse_address("[::1]:9510"),
        token_file="",
        kubelet_folder="/var/lib/kubelet/device-plugins",
        pod_resources="/var/lib/kubelet/pod-resources/kubelet.sock",
        resources=Resources.DEVICE_PLUGIN,
        log_level="info",
    )


@pytest.mark.parametrize(
    ("resources", "plugin", "dra"), [("device-plugin", True, False), ("dra", False, True), ("both", True, True)]
)
def test_how_devices_are_offered(resources: str, plugin: bool, dra: bool) -> None:
    settings = parse([*GOOD, "--resources", resources, "--kubelet-folder", "/k/device-plugins/"], {})
    assert (settings.has_device_plugin, settings.has_dra, settings.kubelet_root) == (plugin, dra, "/k")


@pytest.mark.parametrize(
    ("arguments", "folders"),
    [
        (["--kubelet-folder", "/k/device-plugins/"], ("/k/device-plugins/", "/k", "/k/pod-resources/kubelet.sock")),
        (["--kubelet-root", "/k"], ("/var/lib/kubelet/device-plugins", "/k", "/k/pod-resources/kubelet.sock")),
        (["--kubelet-root", "/k", "--pod-resources", "/p"], ("/var/lib/kubelet/device-plugins", "/k", "/p")),
        (["--kubelet-root", "/k", "--kubelet-folder", "/d"], ("/d", "/k", "/k/pod-resources/kubelet.sock")),
    ],
)
def test_folders_of_the_kubelet(arguments: list[str], folders: tuple[str, str, str]) -> None:
    """A kubelet with another root has its device plugins in the usual folder nevertheless."""
    settings = parse([*GOOD, *arguments], {})
    assert (settings.kubelet_folder, settings.kubelet_root, settings.pod_resources) == folders


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--node", "a"], "the following arguments are required: --service"),
        (["--service", "a:1"], "--node: missing; name the node, or set NODE_NAME"),
        (["--node", "a", "--service", "a"], "--service: must be HOST:PORT or tls://HOST:PORT, as fakedev.mon"),
        (["--node", "a", "--service", "/run/a"], "9510, not '/run/a'"),
        (["--node", "a", "--service", "tls://a"], "9510, not 'tls://a'"),
        ([*GOOD, "--ca-file", "ca.pem"], "--service: fakedev:9510 has no TLS, which the files are for: give it as"),
        ([*GOOD, "--cert-file", "own.pem"], "--cert-file and key-file go together: give both of them"),
        (["--node", "a", "--service", "a:0"], "--service: must be HOST:PORT"),
        (["--node", "a", "--service", "a:65536"], "--service: must be HOST:PORT"),
        (["--node", "a", "--service", "a:²"], "--service: must be HOST:PORT"),
        ([*GOOD, "--nvml-folder", "nvml"], "--nvml-folder: must be a whole path, as /run/fakedev-nvml, not 'nvml'"),
        ([*GOOD, "--resources", "all"], "invalid choice: 'all'"),
        ([*GOOD, "--resource", "dra"], "unrecognized arguments"),
    ],
)
def test_wrong_options(
    misuse: Callable[..., str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    """End the program with 2, and a line that says what is wrong."""
    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert text in misuse(main, *arguments)


def test_tls() -> None:
    files = ["--ca-file", "ca.pem", "--cert-file", "own.pem", "--key-file", "own.key"]
    expected = with_tls(parse_address("tls://fakedev:9510"), ClientTls("ca.pem", "own.pem", "own.key"))
    settings = parse(["--node", "a", "--service", "tls://fakedev:9510", *files], {})
    assert (settings.service, str(settings.service)) == (expected, "tls://fakedev:9510")


def test_the_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = parse([*GOOD, "--token-file", str(file)], {})
    with pytest.raises(ValueError, match=r"^no token from .*/token: no such file$"):
        settings.read_token()
    file.write_text("a-secret\n")
    assert settings.read_token() == "a-secret"
    file.write_text("another-one")
    assert settings.read_token() == "another-one"
    for content in (b"", b" \n", b"x" * 4001, b"\xff"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="no token from"):
            settings.read_token()
    assert parse(GOOD, {}).read_token() == ""


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["grpc", "google.protobuf"])
def test_without_grpcio(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from fakedev.node.main import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", code, *GOOD], env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "error fakedev-node needs grpcio and protobuf: pip install '.[node]' in a checkout" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("fakedev.node.main", {"grpc", "google", "asyncio"}),  # signals are handled before these are imported
        ("fakedev.node.agent", set()),
    ],
)
def test_it_is_light(module: str, heavy: set[str]) -> None:
    """It runs on every node: neither Twisted nor NumPy nor the simulation is there."""
    code = f"import {module}, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {*heavy, "twisted", "zope", "numpy", "yaml", "fakedev.fleet.fleet", "fakedev.service"}
    assert not heavy & {*loaded, *(name.partition(".")[0] for name in loaded)}
