"""How an API server of Kubernetes is reached, as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: Where a pod has the token and the certificate of its service account.
SERVICE_ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True)
class ApiServer:
    """How an API server is reached. Secrets are not shown by ``repr``.

    :param url: ``https://10.96.0.1:443``; a path is put before those of the API; http: without TLS (kubectl proxy).
    :param ca_pem: the certificates that sign the server's, in PEM; empty: those that the system trusts.
    :param is_insecure: whether any certificate of the server is accepted.
    :param server_name: the name in the server's certificate; empty: the host of the URL.
    :param certificate_pem: our own certificate in PEM, with ``key_pem``; empty: none.
    :param token: sent with each request; empty: none.
    :param token_file: its token replaces ``token``; it is read again when it has changed.
    :param namespace: of what fakedev itself writes: its lease and its events.
    :param source: where this comes from, in messages.
    """

    url: str
    ca_pem: str = field(default="", repr=False)
    is_insecure: bool = False
    server_name: str = ""
    certificate_pem: str = field(default="", repr=False)
    key_pem: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    namespace: str = "default"
    source: str = ""
