"""The client's side of TLS, as options and keys of the configuration give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: How the address of a line port with TLS begins.
TLS_SCHEME: Final = "tls://"
#: The options, without their dashes, with what they are for; they are also keys of the configuration.
TLS_OPTIONS: Final[Mapping[str, str]] = {
    "ca-file": "certificates (PEM) that sign the server's, for a tls:// or https:// address; without it those that the "
    "system trusts",
    "cert-file": "our own certificate (PEM), if the server asks for one",
    "key-file": "the key of our own certificate",
}


@dataclass(frozen=True)
class ClientTls:
    """How a client speaks TLS with a server, whose certificate must be for the host of the address.

    :param ca_file: what signs the server's certificate; empty: what the system trusts.
    :param cert_file: our own certificate; empty: none.
    :param key_file: its key.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def __post_init__(self) -> None:
        if bool(self.cert_file) is not bool(self.key_file):
            raise ValueError("cert-file and key-file go together: give both of them")

    def __bool__(self) -> bool:
        return bool(self.ca_file or self.cert_file)


#: No files: the certificates that the system trusts, and none of our own.
NO_FILES: Final = ClientTls()
