"""The token that a request is sent with; one in a file is read again when the file has changed."""

from __future__ import annotations

import os
from typing import Final

from fakedev.net.kube.api_error import NO_ANSWER, ApiError
from fakedev.spec.api_server import ApiServer
from fakedev.spec.os_errors import plain_reason

_MOST_BYTES: Final = 64 * 1024


class Token:
    """The token of a server's value, or of its file, which the kubelet renews."""

    def __init__(self, server: ApiServer) -> None:
        self._path = server.token_file
        self._text = server.token
        self._changed_at: tuple[int, int] | None = None

    def text(self) -> str:
        """The token; empty: there is none.

        :raises ApiError: when its file cannot be read, and has never been.
        """
        if self._path:
            try:
                found = os.stat(self._path)
                if (found.st_mtime_ns, found.st_ino) != self._changed_at:
                    self._read()
                    self._changed_at = (found.st_mtime_ns, found.st_ino)
            except (OSError, ValueError) as error:
                if not self._text:
                    text = f"cannot read the token of the API server: {self._path}: {plain_reason(error)}"
                    raise ApiError(NO_ANSWER, "Token", text) from None
        return self._text

    def was_refused(self) -> bool:
        """Read the file again after 401; whether there is another token now."""
        before = self._text
        self._changed_at = None
        try:
            return self.text() != before
        except ApiError:
            return False

    def _read(self) -> None:
        with open(self._path, "rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        text = data.decode("ascii", errors="replace").strip()
        if not text or len(data) > _MOST_BYTES or not text.isprintable() or not text.isascii() or " " in text:
            raise ValueError("it holds no token, which is one line without spaces")
        self._text = text
