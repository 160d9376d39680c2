"""``fakedev serve`` on a machine whose name server takes questions and never answers; for root on Linux.

Only this process sees it: it has mounts of its own, in which another /etc/resolv.conf names 127.0.0.1. The caller holds
port 53 there, and reads nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

#: Of sched.h and sys/mount.h.
_CLONE_NEWNS: Final = 0x20000
_MS_BIND: Final = 0x1000
_MS_PRIVATE_RECURSIVE: Final = 0x40000 | 0x4000
_KUBECONFIG: Final = """
apiVersion: v1
kind: Config
current-context: silent
clusters: [{name: silent, cluster: {server: "http://api.silent.example:8001"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: silent, context: {cluster: silent, user: nobody}}]
"""


def main() -> int:
    """Run the program."""
    config = Path(sys.argv[sys.argv.index("--config") + 1])
    resolv_conf = config.with_name("resolv.conf")
    resolv_conf.write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
    config.with_name("kubeconfig").write_text(_KUBECONFIG)
    libc = ctypes.CDLL(None, use_errno=True)
    for failed in (
        libc.unshare(_CLONE_NEWNS),
        libc.mount(None, b"/", None, _MS_PRIVATE_RECURSIVE, None),
        libc.mount(os.fsencode(resolv_conf), b"/etc/resolv.conf", None, _MS_BIND, None),
    ):
        if failed:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    from fakedev.commands.main import main as fakedev  # noqa: PLC0415 - the C library reads the file only once

    return fakedev(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
