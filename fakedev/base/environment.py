"""The environment variables whose names begin with FAKEDEV_: what reads them, and which ones nothing reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from fakedev.base.errors import did_you_mean

_PREFIX: Final = "FAKEDEV_"
#: Variables with the values of keys: FAKEDEV__WORKLOADS__MAX_CONNECTIONS, FAKEDEV__WEB__0__LISTEN.
OVERRIDES: Final = "FAKEDEV__"
SOCKET: Final = "FAKEDEV_SOCKET"
URL: Final = "FAKEDEV_URL"
TOKEN: Final = "FAKEDEV_TOKEN"
NODE: Final = "FAKEDEV_NODE"
NVML_FILE: Final = "FAKEDEV_NVML_FILE"

#: All that some part of the project reads, besides OVERRIDES.
VARIABLES: Final[Mapping[str, str]] = {
    SOCKET: "the workload port of a running service, for `fakedev run`, `stop`, `fault`, ...",
    URL: "the HTTP address of a running service, for the commands that watch or control it",
    TOKEN: "the token of that service, if it requires one; of control on port 9400, in the configuration of the "
    "container image (`etc/container.yaml`)",
    "FAKEDEV_DEVICE": "the device type, in the same configuration, and of `fakedev-dcgm-exporter`",
    "FAKEDEV_IDENTITY": "the identity, in the same configuration, and of `fakedev-dcgm-exporter`",
    "FAKEDEV_OPEN": "true: control on port 9400 without a token, in the same configuration",
    NODE: "the node that programs see through NVML; set by `fakedev-node` in containers with devices, too",
    NVML_FILE: "the file of a running service for NVML, for the library, `nvidia-smi`, `dcgmi` and `fakedev nvml`; "
    "`fakedev-dcgm-exporter` writes it; set by `fakedev-node` in containers with devices, too",
    "FAKEDEV_DEVICES": "set by `fakedev-node` in containers with devices: their ids",
    "FAKEDEV_NODE_TOKEN": "the token of the node port, in the manifests for nodes with a kubelet",
    "FAKEDEV_BIN": "the folder of the programs, in `etc/loop.sh`",
    "FAKEDEV_BACKENDS": "the backends' address, in `etc/loop.sh`",
    "FAKEDEV_TEST_KUBECONFIG": "a cluster for the tests in `tests/kubernetes/cluster`",
    "FAKEDEV_REQUIRE_REAL": "tests that cannot run fail",
    "FAKEDEV_HYPOTHESIS_PROFILE": "how many examples the property tests try",
}

#: Kubernetes describes a Service named ``fakedev`` or ``fakedev-...`` to all pods in such variables.
_SERVICE_VARIABLES: Final = re.compile(
    r"\w+_SERVICE_HOST=.*|\w+_SERVICE_PORT(_\w+)?=\d+|\w+_PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://.*"
    r"|\w+_PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*",
    re.DOTALL,
)
_HOW_TO_OVERRIDE: Final = "; a value of the configuration is FAKEDEV__SECTION__KEY, as FAKEDEV__FLEET__SEED"


def unknown_variables(environ: Mapping[str, str], read: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """The names of variables that nothing reads, each with a sentence.

    :param read: what a configuration reads by ``${NAME}``.
    """
    for name in sorted(environ):
        if name.startswith(OVERRIDES) or not name.startswith(_PREFIX) or name in VARIABLES or name in read:
            continue
        if _SERVICE_VARIABLES.fullmatch(f"{name}={environ[name]}"):
            continue
        hint = did_you_mean(name.removeprefix(_PREFIX), (variable.removeprefix(_PREFIX) for variable in VARIABLES))
        hint = hint.replace("did you mean ", f"did you mean {_PREFIX}") or _HOW_TO_OVERRIDE
        yield name, f"nothing reads this variable{hint}"
