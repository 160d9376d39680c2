"""A real kube-apiserver with its etcd, from the folder of ``KUBEBUILDER_ASSETS``: the custom of envtest.

There is no scheduler, controller manager or KWOK: tests bind pods, as with the API server in memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.programs.asynchronous import eventually
from tests.support.programs.ports import free_port
from tests.support.programs.processes import AsyncProgram, StartAsync, run
from tests.support.wire.certificates import Authority

#: The folder with the programs etcd and kube-apiserver.
ASSETS: Final = "KUBEBUILDER_ASSETS"
_TOKEN: Final = "fakedev-tests"
#: Service accounts would need a controller manager; taints of new nodes, too.
_DISABLED: Final = "ServiceAccount,TaintNodesByCondition"


class RealApiServer:
    """etcd and kube-apiserver on free ports of the loopback interface; they end with the test.

    :param assets: the folder with the programs.
    :param folder: for data, keys and the kubeconfig.
    """

    def __init__(self, start_async: StartAsync, assets: Path, folder: Path) -> None:
        self._start_async = start_async
        self._assets = assets
        self._folder = folder
        self._authority = Authority()
        self._programs: list[AsyncProgram] = []
        self._url = f"https://127.0.0.1:{free_port()}"
        self.kubeconfig = folder / "kubeconfig"

    async def start(self) -> None:
        """Start both; returns when the API server is ready."""
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._programs.append(
            self._start_async([
                str(self._assets / "etcd"), "--data-dir", str(self._folder / "etcd"),
                "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"default={peer}", "--unsafe-no-fsync",
            ])
        )  # fmt: skip
        files = self._write_files()
        self._programs.append(
            self._start_async([
                str(self._assets / "kube-apiserver"),
                "--etcd-servers", client,
                "--bind-address", "127.0.0.1", "--secure-port", self._url.rpartition(":")[2],
                "--tls-cert-file", files["server.crt"], "--tls-private-key-file", files["server.key"],
                "--token-auth-file", files["tokens.csv"], "--authorization-mode", "RBAC",
                "--service-account-issuer", "https://kubernetes.default.svc",
                "--service-account-key-file", files["accounts.key"],
                "--service-account-signing-key-file", files["accounts.key"],
                "--service-cluster-ip-range", "10.0.0.0/24",
                "--disable-admission-plugins", _DISABLED,
            ])
        )  # fmt: skip
        await eventually(self._is_ready, "the API server is ready", 120.0)

    def _write_files(self) -> dict[str, str]:
        certificate, key = self._authority.sign("kube-apiserver", "127.0.0.1")
        accounts = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        texts = {
            "server.crt": certificate,
            "server.key": key,
            "tokens.csv": f"{_TOKEN},admin,1,system:masters\n",
            "accounts.key": accounts.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ).decode(),
        }
        for name, text in texts.items():
            (self._folder / name).write_text(text, encoding="utf-8")
        cluster = f"{{server: '{self._url}', certificate-authority-data: {self._authority.pem_base64}}}"
        self.kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            f"clusters: [{{name: test, cluster: {cluster}}}]\n"
            f"users: [{{name: test, user: {{token: {_TOKEN}}}}}]\n"
            "contexts: [{name: test, context: {cluster: test, user: test}}]\n",
            encoding="utf-8",
        )
        return {name: str(self._folder / name) for name in texts}

    async def _is_ready(self) -> bool:
        for program in self._programs:
            assert program.exit_code is None, f"{program.command[0]} has ended: {program.stderr[-2000:]}"
        asked = await run(
            self._start_async, "curl", "-sk", "-H", f"Authorization: Bearer {_TOKEN}", f"{self._url}/readyz"
        )
        return asked.stdout.strip() == "ok"


def assets_folder() -> Path | None:
    """The folder of the variable; None when it is not set."""
    return Path(os.environ[ASSETS]).absolute() if os.environ.get(ASSETS) else None
