"""The files of the web page, with an ETag and a policy that forbids all foreign content."""

from __future__ import annotations

import hashlib
import re
import sysconfig
from importlib.resources import files
from pathlib import Path
from typing import Final

from twisted.web.resource import IResource

from fakedev.web.request import Request
from fakedev.web.resource import Folder, Resource
from fakedev.web.response import Response

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: Browsers may load, request and run only what this server sends; no inline scripts, no frames.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)


class StaticFile(Resource):
    """A file that browsers download again only when it has changed."""

    def __init__(self, content: bytes, content_type: str) -> None:
        self._tag = f'W/"{hashlib.sha256(content).hexdigest()[:20]}"'
        # Browsers keep the file and revalidate it each time, so they show a new version at once.
        headers = (("ETag", self._tag), ("Cache-Control", "no-cache"), *_SAFE)
        self._whole = Response(200, content, content_type, headers)
        self._unchanged = Response(304, b"", content_type, headers)

    def get(self, request: Request) -> Response:
        """The file, or 304 when it has not changed."""
        known = (request.getHeader(b"if-none-match") or b"").decode("latin-1")
        is_known = known.strip() == "*" or self._tag in (tag.strip() for tag in known.split(","))
        return self._unchanged if is_known else self._whole


class PageFiles:
    """All files of the page, read once and served by all addresses.

    :ivar start: the page at ``/``; under a Host from which it could not read the API it is an error that says so.
    :ivar folder: /page, the other files by name.
    """

    def __init__(self) -> None:
        self.folder = Folder()
        for entry in files("fakedev.page").iterdir():
            if entry.is_file() and entry.name.endswith(tuple(_TYPES)):
                file = StaticFile(entry.read_bytes(), _TYPES[entry.name[entry.name.rindex(".") :]])
                if entry.name == "index.html":
                    self.start = file
                else:
                    self.folder.putChild(entry.name.encode(), file)
        self.start.is_guarded = True
        self.folder.putChild(b"doc", Documents())


class Documents(Folder):
    """The documents as text, from the source tree or from the installed package."""

    def getChild(self, name: bytes, request: Request) -> IResource:
        installed = Path(sysconfig.get_path("data")) / "share" / "doc" / "fakedev"
        for folder in (Path(__file__).parents[2] / "doc", installed):
            file = folder / name.decode("latin-1")
            if re.fullmatch(rb"[a-z0-9-]+\.(md|txt)", name) and file.is_file():
                return StaticFile(file.read_bytes(), "text/plain; charset=utf-8")
        return super().getChild(name, request)
