"""The files of the web page, served as they are, with an ETag, and nothing foreign allowed beside them."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Final

from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Folder, GuardedResource
from fakedev.net.http.response import Response

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: Only what this server itself sends may be loaded, asked, framed or run; no script stands in a page.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)


class StaticFile(GuardedResource):
    """A file that is asked for again only when it has changed."""

    def __init__(self, content: bytes, content_type: str) -> None:
        super().__init__()
        self._tag = f'W/"{hashlib.sha256(content).hexdigest()[:20]}"'
        # Browsers keep it, and ask each time whether it is still the same: a new version is seen at once.
        headers = (("ETag", self._tag), ("Cache-Control", "no-cache"), *_SAFE)
        self._whole = Response(200, content, content_type, headers)
        self._unchanged = Response(304, b"", content_type, headers)

    def get(self, request: GuardedRequest) -> Response:
        """The file, or that it has not changed."""
        known = (request.header(b"if-none-match") or b"").decode("latin-1")
        is_known = known.strip() == "*" or self._tag in (tag.strip() for tag in known.split(","))
        return self._unchanged if is_known else self._whole


class PageFiles:
    """All files of the page, read once."""

    def __init__(self) -> None:
        folder = files("fakedev.page")
        self._files = {
            entry.name: (entry.read_bytes(), _TYPES[entry.name[entry.name.rindex(".") :]])
            for entry in folder.iterdir()
            if entry.is_file() and entry.name.endswith(tuple(_TYPES))
        }

    def start(self) -> StaticFile:
        """What is shown at ``/``."""
        return StaticFile(*self._files["index.html"])

    def folder(self) -> Folder:
        """/page: the other files, by name."""
        return Folder(**{name: StaticFile(*file) for name, file in self._files.items() if name != "index.html"})
