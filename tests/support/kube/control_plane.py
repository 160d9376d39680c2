"""A real control plane: the programs of a folder (the custom of envtest), their commands, keys and kubeconfigs.

Nothing is started here: tests and benchmarks/real_clusters.py do so. etcd and kube-apiserver are needed; the scheduler
is optional. Without a controller manager there are no service accounts, and nobody takes the taints of new nodes away.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.programs.ports import free_port
from tests.support.wire.certificates import Authority

#: The variable with the folder of the programs.
ASSETS: Final = "KUBEBUILDER_ASSETS"
#: The token of the administrator, whom the API server never limits.
ADMIN: Final = "fakedev-tests"
#: The token of the service account of etc/kubernetes, which has the rules of its Roles and the limits of all others.
SERVICE: Final = "fakedev-service"
_ACCOUNT: Final = "system:serviceaccount:fakedev:fakedev"
_DISABLED: Final = "ServiceAccount,TaintNodesByCondition"


class ControlPlane:
    """Commands on free ports of the loopback interface.

    :param assets: the folder with the programs.
    :param folder: for data, keys and kubeconfigs.
    :ivar kubeconfig: of the administrator; ``service_kubeconfig`` that of the service account.
    """

    def __init__(self, assets: Path, folder: Path) -> None:
        self._assets = assets
        self._folder = folder
        self.authority = Authority()
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        self.url = f"https://127.0.0.1:{free_port()}"
        certificate, key = self.authority.sign("kube-apiserver", "127.0.0.1")
        accounts = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._file("server.crt", certificate)
        self._file("server.key", key)
        self._file("tokens.csv", f"{ADMIN},admin,1,system:masters\n{SERVICE},{_ACCOUNT},2,system:serviceaccounts\n")
        self._file("accounts.key", accounts.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode())  # fmt: skip
        self.kubeconfig = self._kubeconfig("kubeconfig", ADMIN)
        self.service_kubeconfig = self._kubeconfig("service-kubeconfig", SERVICE)

    def etcd(self) -> list[str]:
        peer = f"http://127.0.0.1:{free_port()}"
        return [
            str(self._assets / "etcd"), "--data-dir", str(self._folder / "etcd"),
            "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}", "--unsafe-no-fsync",
        ]  # fmt: skip

    def api_server(self) -> list[str]:
        folder = self._folder
        return [
            str(self._assets / "kube-apiserver"),
            "--etcd-servers", self.etcd_url,
            "--bind-address", "127.0.0.1", "--secure-port", self.url.rpartition(":")[2],
            "--tls-cert-file", str(folder / "server.crt"), "--tls-private-key-file", str(folder / "server.key"),
            "--token-auth-file", str(folder / "tokens.csv"), "--authorization-mode", "RBAC",
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-key-file", str(folder / "accounts.key"),
            "--service-account-signing-key-file", str(folder / "accounts.key"),
            "--service-cluster-ip-range", "10.0.0.0/24",
            "--disable-admission-plugins", _DISABLED,
        ]  # fmt: skip

    def scheduler(self) -> list[str]:
        file = str(self.kubeconfig)
        return [
            str(self._assets / "kube-scheduler"), "--kubeconfig", file, "--authentication-kubeconfig", file,
            "--authorization-kubeconfig", file, "--leader-elect=false",
            "--bind-address", "127.0.0.1", "--secure-port", str(free_port()),
        ]  # fmt: skip

    def _kubeconfig(self, name: str, token: str) -> Path:
        cluster = f"{{server: '{self.url}', certificate-authority-data: {self.authority.pem_base64}}}"
        return self._file(
            name,
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            f"clusters: [{{name: test, cluster: {cluster}}}]\n"
            f"users: [{{name: test, user: {{token: {token}}}}}]\n"
            "contexts: [{name: test, context: {cluster: test, user: test}}]\n",
        )

    def _file(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text, encoding="utf-8")
        return path


def assets_folder() -> Path | None:
    """The folder of the variable; None when it is not set."""
    return Path(os.environ[ASSETS]).absolute() if os.environ.get(ASSETS) else None
