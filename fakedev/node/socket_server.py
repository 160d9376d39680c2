"""A gRPC server on a UNIX socket of the kubelet's folders."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc

from fakedev.node.kubelet_apis import server_options
from fakedev.node.plugin_steps import SocketFile
from fakedev.spec.os_errors import plain_reason

#: Calls of one socket at once, a thread each; a kubelet has one stream open, and makes one call at a time.
_MAX_CALLS: Final = 8
#: The system's limit for a path of a socket.
_MAX_PATH_BYTES: Final = 107
_STOP_SECONDS: Final = 2.0


class CannotServe(Exception):
    """A socket cannot be served: the text says why."""


class SocketServer:
    """Serves some APIs on one socket, until it is stopped."""

    def __init__(self, path: str, handlers: list[grpc.GenericRpcHandler]) -> None:
        """Bind the socket and serve it.

        :raises CannotServe: when that is not possible, also when another program serves a socket there.
        """
        # gRPC removes the path that it has bound when it ends, whoever serves a socket there by then. So it binds
        # another one, which is renamed. The kubelet ignores names with a dot.
        bound = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}")
        if len(os.fsencode(bound)) > _MAX_PATH_BYTES:
            raise CannotServe(f"{path} is longer than {_MAX_PATH_BYTES - 1} bytes: name a shorter folder")
        if _is_served(path):
            raise CannotServe(f"another program serves {path}: remove that device plugin from this node")
        self.path = path
        self._threads = ThreadPoolExecutor(_MAX_CALLS, thread_name_prefix=os.path.basename(path))
        self._server = grpc.server(
            self._threads, handlers=handlers, options=server_options(), maximum_concurrent_rpcs=_MAX_CALLS
        )
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._server.add_insecure_port(f"unix:{bound}")
            self._server.start()
            os.rename(bound, path)
        except (OSError, RuntimeError) as error:
            self._server.stop(0).wait(_STOP_SECONDS)
            self._threads.shutdown(wait=False)
            with contextlib.suppress(OSError):
                os.unlink(bound)
            raise CannotServe(f"cannot serve {path}: {_reason(path, error)}") from None
        self.file = socket_file(path)

    def stop(self) -> None:
        """Close the socket and end all calls. A socket that is not ours any more stays."""
        if self.file is not None and socket_file(self.path) == self.file:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._server.stop(0).wait(_STOP_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)


def socket_file(path: str) -> SocketFile | None:
    """Which socket is at a path; None: there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return SocketFile(found.st_ino, found.st_ctime_ns) if stat.S_ISSOCK(found.st_mode) else None


def _is_served(path: str) -> bool:
    if socket_file(path) is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _reason(path: str, error: Exception) -> str:
    """gRPC does not say why it cannot bind; the folder often shows it."""
    if isinstance(error, OSError):
        return plain_reason(error)
    folder = os.path.dirname(path)
    return "this user may not write there" if not os.access(folder, os.W_OK) else str(error).rstrip(".")
