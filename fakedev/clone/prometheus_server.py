"""Sends queries to the HTTP API of a Prometheus, with a password, a token or certificates where it requires them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from ssl import SSLCertVerificationError
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from fakedev.base.errors import printable
from fakedev.runtime.client_tls import client_context, connection_reason
from fakedev.schema.peer_addresses import NO_FILES, ClientTls

#: A Prometheus gives a query two minutes, unless its --query.timeout says otherwise.
_TIMEOUT_SECONDS: Final = 150
#: An answer that is larger is refused: series of 50,000 devices are about this large.
_MOST_BYTES: Final = 1 << 30
_SHOWN_OF_URL: Final = 100
_REMEDIES: Final[Mapping[int, str]] = {
    400: ": a server with TLS has an address with https://",
    401: ": give what the server requires: --user and --password-file, or --token-file",
    403: ": the server knows this user or token, and does not let it read",
    404: ": the URL ends before /api/v1, as http://localhost:9090",
}


class PrometheusServer:
    """A Prometheus.

    :param url: also with a path before ``/api/v1``.
    :param tls: files for a ``https:`` address.
    :param headers: of each request, but for those to which the server redirects: they may be to another host.
    :raises ValueError: for an address that cannot be used.
    :raises CannotUseTls: for a file that cannot be used.
    """

    def __init__(self, url: str, tls: ClientTls = NO_FILES, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise ValueError("--prometheus: the address has a user: give --user NAME and --password-file FILE, because "
                             "others see the words of a command")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"--prometheus: {printable(url)[:_SHOWN_OF_URL]!r} is no address, as "
                             "http://localhost:9090")
        if tls and parts.scheme != "https":
            raise ValueError(f"--prometheus: {url} has no TLS, which the files are for: give it as https://")
        self.url = url.rstrip("/")
        self._headers = headers or {}
        self._context = client_context(tls) if parts.scheme == "https" else None

    def ask(self, what: str, query: Mapping[str, str]) -> Any:
        """The data of an answer.

        :param what: the name of the query after ``/api/v1/``.
        :raises ValueError: with the server's words, for a query that it refuses.
        :raises ConnectionError: when the server does not answer as a Prometheus does.
        """
        address = f"{self.url}/api/v1/{what}"
        request = Request(address, data=urlencode(query).encode() if query else None)
        for name, text in self._headers.items():
            request.add_unredirected_header(name, text)
        try:
            with urlopen(request, timeout=_TIMEOUT_SECONDS, context=self._context) as answer:
                body = answer.read(_MOST_BYTES + 1)
        except HTTPError as error:
            words = _error_words(error.read(4096))
            if error.code in (400, 422) and words:
                raise ValueError(f"{self.url}: {printable(words)}") from None
            text = f"{address}: {error.code} {printable(error.reason)}{_REMEDIES.get(error.code, '')}"
            raise ConnectionError(text) from None
        except (URLError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            words = connection_reason(reason) if isinstance(reason, OSError) and reason.errno else str(reason)
            if isinstance(reason, SSLCertVerificationError):
                words += ": --ca-file names the authority"
            raise ConnectionError(f"{address}: {words}") from None
        if len(body) > _MOST_BYTES:
            raise ConnectionError(f"{address}: the answer is larger than {_MOST_BYTES} bytes: narrow what is read")
        try:
            return json.loads(body)["data"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConnectionError(f"{address}: the answer does not come from a Prometheus") from None


def _error_words(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return ""
