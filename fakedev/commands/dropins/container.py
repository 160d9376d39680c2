"""The entry point of the container image: starts the program that arguments and variables name.

If the first argument is a command, it is executed. If it is an option, fakedev-dcgm-exporter gets all arguments: the
manifests of dcgm-exporter give options and no command. Without arguments, a variable of dcgm-fake-gpu-exporter selects
fakedev-dcgm-exporter too; otherwise the demo is served.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from fakedev.base.console import write_text
from fakedev.base.errors import plain_reason
from fakedev.commands import services

#: Variables of dcgm-fake-gpu-exporter: with one of them fakedev-dcgm-exporter behaves as that program.
FAKE_VARIABLES: Final = (
    "NUM_FAKE_GPUS", "METRIC_PROFILE", "GPU_PROFILES", "METRIC_UPDATE_INTERVAL", "GPU_START_INDEX", "EXPORTER_PORT",
    "ENABLE_UDS", "UDS_SOCKET_PATH",
)  # fmt: skip
_CONFIGURATION: Final = "/etc/fakedev/fakedev.yaml"


def main() -> int:
    """Run the program and return its exit code: 127 and 126, as a shell's, for one that cannot be started."""
    words = sys.argv[1:]
    if words and not words[0].startswith("-"):
        try:
            os.execvp(words[0], words)
        except OSError as error:
            write_text(sys.stderr, f"cannot start {words[0]}: {plain_reason(error)}\n")
            return 127 if isinstance(error, FileNotFoundError) else 126
    if words or not os.environ.keys().isdisjoint(FAKE_VARIABLES):
        return services.dcgm_exporter()
    sys.argv = ["fakedev", "serve", "--config", _CONFIGURATION]
    return services.fakedev()


if __name__ == "__main__":
    raise SystemExit(main())
