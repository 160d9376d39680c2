"""A socket in a folder that others use, too."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from fakedev.node.device_plugin import CannotServe, DevicePlugin, SocketServer, socket_file
from fakedev.node.kubelet import DEVICE_PLUGIN, open_channel
from fakedev.node.nvml import Provision
from tests.support.kube.node_service import GPU


def served(path: Path) -> SocketServer:
    """A plugin's server."""
    plugin = DevicePlugin(GPU, "a", lambda *_: [], lambda _: None, Provision({}))
    return SocketServer(str(path), [DEVICE_PLUGIN.handler(plugin)])


@contextmanager
def of_another(path: Path) -> Iterator[None]:
    """Another program's socket."""
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        yield


def answers(path: Path) -> bool:
    """Whether a device plugin answers there."""
    with open_channel(str(path)) as channel:
        options = DEVICE_PLUGIN.call(channel, "GetDevicePluginOptions")(DEVICE_PLUGIN.messages["Empty"](), timeout=300)
        return bool(options.get_preferred_allocation_available)


def test_from_the_beginning_to_the_end(short_folder: Path) -> None:
    path = short_folder / "plugins" / "a.sock"
    server = served(path)
    assert answers(path)
    assert os.listdir(path.parent) == ["a.sock"]
    assert server.file == socket_file(str(path))
    server.stop()
    assert os.listdir(path.parent) == []


def test_a_socket_that_nobody_serves(short_folder: Path) -> None:
    path = short_folder / "a.sock"
    with of_another(path):
        pass
    server = served(path)
    assert answers(path)
    server.stop()


def test_the_socket_of_another_program(short_folder: Path) -> None:
    path = short_folder / "a.sock"
    with of_another(path):
        with pytest.raises(CannotServe, match="another program serves"):
            served(path)
        assert path.exists()
    server = served(path)
    path.unlink()
    with of_another(path):
        server.stop()
        assert path.exists()


def test_a_successor_at_the_same_path(short_folder: Path) -> None:
    path = short_folder / "a.sock"
    first = served(path)
    path.unlink()  # as a kubelet does that starts
    second = served(path)
    first.stop()
    assert answers(path)
    second.stop()
    with pytest.raises(grpc.RpcError):
        answers(path)


def test_what_cannot_be_served(short_folder: Path) -> None:
    (short_folder / "file").write_text("")
    with pytest.raises(CannotServe, match="there is something with this name already"):
        served(short_folder / "file" / "a.sock")
    with pytest.raises(CannotServe, match="is longer than 106 bytes: name a shorter folder"):
        served(short_folder / ("x" * 100) / "a.sock")
    (short_folder / "a.sock").mkdir()
    with pytest.raises(CannotServe, match="it is a folder, not a file"):
        served(short_folder / "a.sock")
    assert sorted(os.listdir(short_folder)) == ["a.sock", "file"]
