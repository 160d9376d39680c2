"""The section ``nvml``."""

from __future__ import annotations

from fakedev.nvml.settings import Nvml
from tests.support.configurations import loaded, pool, problems


def test_defaults() -> None:
    """Without the section there is no file; an empty one is enough."""
    assert loaded(pool(device="h100", identity="dcgm")).nvml is None
    text = "nvml: {}\n" + pool(device="h100", identity="dcgm")
    assert loaded(text, environ={"RUNTIME_DIRECTORY": "/run/x"}).nvml == Nvml("/run/x/nvml.map")


def test_values() -> None:
    """Paths begin at the folder of the file; the socket for changes is beside it."""
    keys = "file: a/b, nodes: [a-1], mode: 600, setters: [root, '17']"
    nvml = loaded(f"nvml: {{{keys}}}\n" + pool(nodes="2", device="h100", identity="dcgm")).nvml
    assert nvml == Nvml("/conf/a/b", ("a-1",), 0o600, ("root", "17"))
    assert nvml.control_socket == "/conf/a/b.sock"


def test_problems() -> None:
    """A node that there is not, and more boards than there is room for."""
    fleet = pool(nodes="600", device="h100", identity="dcgm")
    assert problems("nvml: {nodes: [a-1, b-0]}\n" + fleet) == [
        "f.yaml:1: nvml.nodes: no node 'b-0'; did you mean 'a-0'?"
    ]
    assert problems("nvml: {}\n" + fleet) == [
        "f.yaml:1: nvml: the file has room for 4096 boards, and these nodes have 4800: name some in nodes:"
    ]
    assert problems("nvml: {nodes: [a-1, a-2]}\n" + fleet) == []
