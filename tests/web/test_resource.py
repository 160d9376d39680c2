"""Resources: methods, errors, answers that come later, compression."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.web import resource
from twisted.web.server import NOT_DONE_YET

from fakedev.base.errors import Refused
from fakedev.web.encoding import Body
from fakedev.web.guard import AccessGuard
from fakedev.web.http_limits import HttpError
from fakedev.web.resource import Folder, Resource
from fakedev.web.response import PageStatistics, Response, json_response
from fakedev.web.site import Site
from tests.support.logged_errors import LoggedErrors
from tests.support.wire.http_wire import Answer, Echo, Page, Peer, Threads, answers, make_site, no_threads

LARGE = Body(b"".join(b"metric_%d 1.0\n" % number for number in range(20_000)))
ZIPPED = "Accept-Encoding: gzip"


def text(method: str, path: str, *headers: str) -> bytes:
    """A request without a body."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def page(answer: Any) -> Page:
    """A resource that always answers with ``answer``."""
    return Page(lambda _: answer)


def asked(site: Site, method: str, path: str, *headers: str) -> Answer:
    """The answer to one request of a new peer."""
    return Peer(site).ask(text(method, path, *headers), head=method == "HEAD")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST", "DELETE", "OPTIONS", "TRACE", "FOOBAR", "get", "CONNECT"])
def test_methods_that_are_not_allowed(method: str) -> None:
    """They are 405; Allow and the text say which are allowed, inherited or not."""

    class More(Echo):
        """A subclass that adds nothing."""

    shown = page(Response(200, b"x"))
    site = make_site(page=shown, echo=More())
    answer = asked(site, method, "/page")
    assert (answer.status, answer.headers["allow"], shown.asked) == (405, "GET, HEAD", 0)
    answer = asked(site, "PUT", "/echo")
    assert answer.headers["allow"] == "GET, HEAD, POST, DELETE"
    assert json.loads(answer.body)["error"]["code"] == "method-not-allowed"


@pytest.mark.parametrize("body", [Body(b"content"), LARGE])
def test_head(body: Body) -> None:
    """HEAD gives the headers of GET and no body, and the connection continues in order."""
    site = make_site(page=page(Response(200, body, "text/x")))
    got = asked(site, "GET", "/page")
    peer = Peer(site)
    first, second = answers(peer.send(text("HEAD", "/page") * 2), heads=True)
    assert first.headers == second.headers == got.headers and bytes(body) == got.body
    assert not peer.closed


def test_an_empty_page_has_a_type() -> None:
    """Prometheus refuses a page without Content-Type; an empty answer of another status needs none."""
    site = make_site(empty=page(Response(200)), gone=page(Response(204)))
    found = asked(site, "GET", "/empty").headers
    assert (found["content-type"], found["vary"]) == ("text/plain; charset=utf-8", "Accept-Encoding")
    assert "content-type" not in asked(site, "GET", "/gone").headers


def test_the_date_is_that_of_the_answer() -> None:
    clock = Clock()
    site = make_site(clock, page=page(Response(200, b"x")))
    peer = Peer(site)
    dates = []
    for seconds in (0.5, 0.4, 0.2):
        clock.advance(seconds)
        dates.append(peer.ask(text("GET", "/page")).headers["date"])
    assert dates == [*["Thu, 01 Jan 1970 00:00:00 GMT"] * 2, "Thu, 01 Jan 1970 00:00:01 GMT"]


def test_head_may_be_forbidden() -> None:
    """Where an original refused HEAD it can be refused here."""
    shown = page(Response())
    shown.allow_head = False
    answer = asked(make_site(page=shown), "HEAD", "/page")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize(
    "path", ["/none", "/page/more", "/page/", "/page//", "/", "//page", "/folder", "/folder/x/y", "/%70age/x"]
)
def test_nothing_there(path: str) -> None:
    """404 for unknown and longer paths, and for folders, in one line of text; below an API folder in JSON."""
    site = make_site(page=page(Response()), folder=Folder(), api=Folder(errors_as_json=True))
    answer = asked(site, "GET", path)
    assert (answer.status, answer.body.startswith(b"nothing is here"), answer.body.count(b"\n")) == (404, True, 1)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    answer = asked(site, "GET", "/api/none")
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body) == {"error": {"code": "not-found", "message": "nothing is here", "where": ""}}


@pytest.mark.parametrize("path", ["/folder/page", "/folder/page?a=b", "/f%6Flder/page"])
def test_paths(path: str) -> None:
    assert asked(make_site(folder=Folder(page=page(Response(200, b"x")))), "GET", path).status == 200


def test_changes() -> None:
    """POST and DELETE reach the resource, HEAD makes no change; 204 has no body and no length."""
    echo = Echo()
    peer = Peer(make_site(echo=echo))
    Peer(make_site(echo=echo)).send(text("HEAD", "/echo"))
    peer.send(text("POST", "/echo", "Content-Length: 5") + b"hello", text("POST", "/echo"), text("DELETE", "/echo"))
    assert echo.changes == [("post", b"hello"), ("post", b""), ("delete", b"")]
    last = answers(peer.transport.value())[-1]
    assert last.status == 204 and "content-length" not in last.headers


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_guard_of_changes(method: str) -> None:
    """Changes from foreign pages, by foreign names or without the token are refused; reading a page is not."""
    echo = Echo()
    site = Site(Folder(echo=echo), Clock(), guard=AccessGuard(["sim.example"], token="T"))
    assert asked(site, method, "/echo", "Origin: http://evil.example", "Authorization: Bearer T").status == 403
    assert Peer(site).ask(text(method, "/echo").replace(b"localhost", b"evil.example")).status == 403
    refused = asked(site, method, "/echo")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert asked(site, "GET", "/echo", "Origin: http://evil.example").body == b"0"
    good = text(method, "/echo", "Authorization: Bearer T").replace(b"localhost", b"sim.example:1")
    assert Peer(site).ask(good).status in (201, 204)
    assert Peer(site).ask(good.replace(b"sim.example", b"evil.example")).status in (201, 204)
    assert len(echo.changes) == 2


def test_guarded_reads_and_refusals() -> None:
    """Reads of a guarded resource need a Host of ours; a refusal by the rules is 404 for the item of a path."""

    def refuse(_: object) -> Response:
        raise Refused("unknown-name", "no such thing")

    shown = Page(refuse)
    shown.is_guarded, shown.errors_as_json = True, True
    for is_item, host, status in ((False, b"localhost", 400), (True, b"localhost", 404), (True, b"evil.example", 403)):
        shown.is_item = is_item
        assert Peer(make_site(page=shown)).ask(text("GET", "/page").replace(b"localhost", host)).status == status


def test_unix_socket() -> None:
    """Over a UNIX socket any Host will do."""
    site = make_site(echo=Echo())
    request = text("POST", "/echo").replace(b"localhost", b"whatever")
    assert [Peer(site, unix=unix).ask(request).status for unix in (False, True)] == [403, 201]


class Plain(resource.Resource):
    """A resource of twisted.web as its documentation has them."""

    isLeaf = True

    def render_GET(self, request: Any) -> bytes:
        request.setHeader(b"X-Path", b"/".join(request.postpath))
        return b"plain"

    def render_POST(self, request: Any) -> Any:
        request.write(request.content.read())
        request.finish()
        return NOT_DONE_YET


def test_a_resource_of_twisted() -> None:
    """It may be in the tree: answers that it writes by itself are sent, and counted."""
    site = make_site(plain=Plain())  # type: ignore[arg-type]
    peer = Peer(site)
    answer = peer.ask(text("GET", "/plain/a/b"))
    assert (answer.status, answer.body, answer.headers["x-path"]) == (200, b"plain", "a/b")
    sent = peer.send(text("POST", "/plain", "Content-Length: 5") + b"hello" + text("GET", "/plain"))
    assert b"\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n" in sent and site.codes == {200: 3}


def test_json() -> None:
    """JSON is compact and ends with a line end."""
    answer = asked(make_site(page=page(json_response({"a": [1, None, "é"]}, 202))), "GET", "/page")
    assert (answer.status, answer.body) == (202, '{"a":[1,null,"é"]}\n'.encode())


def test_gzip() -> None:
    """gzip only when the client accepts it; the same bytes after decompression; once for all requests."""
    response = Response(200, b"content" * 100)
    site = make_site(page=page(response))
    plain = asked(site, "GET", "/page", "Accept-Encoding: gzip;q=0")
    assert "content-encoding" not in plain.headers and plain.body == b"content" * 100
    zipped = asked(site, "GET", "/page", ZIPPED)
    assert zipped.headers["content-encoding"] == "gzip" and gzip.decompress(zipped.body) == plain.body
    assert plain.headers["vary"] == zipped.headers["vary"] == "Accept-Encoding"
    assert asked(site, "GET", "/page", ZIPPED) == zipped
    assert response.body.compressed(no_threads) is response.body.compressed(no_threads)
    assert asked(site, "HEAD", "/page", ZIPPED).headers == zipped.headers


def test_large_gzip_is_made_once() -> None:
    """Three scrapers that ask at the same time share one compression; one of them leaves meanwhile."""
    threads = Threads()
    site = Site(Folder(page=page(Response(200, Body(bytes(LARGE))))), Clock(), defer_to_thread=threads)
    peers = [Peer(site) for _ in range(3)]
    assert [peer.send(text("GET", "/page", ZIPPED)) for peer in peers] == [b""] * 3
    peers[1].leave()
    assert len(threads.waiting) == 1
    threads.run()
    for peer in (peers[0], peers[2]):
        peer.read()
        assert gzip.decompress(answers(peer.transport.value())[0].body) == bytes(LARGE)
    assert peers[1].transport.value() == b"" and not peers[1].transport.unsent


async def _fails_later(_: object) -> Response:
    raise KeyError("x")


@pytest.mark.parametrize("api", [False, True])
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda _: 1 // 0, ZeroDivisionError),
        (_fails_later, KeyError),
        (lambda _: fail(OSError()), OSError),
        (lambda _: b"no response", AttributeError),
        (lambda _: Response(200, b"x", "text/\n"), ValueError),
        (lambda _: Response(200, b"x", headers=[("X", "a\r\nSet-Cookie: b")]), ValueError),
        (lambda _: Response(200, Body(bytes(LARGE))), MemoryError),  # its compression fails
    ],
)
def test_failures(
    answer: Callable[[Any], Any], error: type[Exception], api: bool, logged_errors: LoggedErrors
) -> None:
    """They are 500 without details for the client, and a failure in our log; the connection lives."""
    shown = Page(answer)
    shown.errors_as_json = api
    peer = Peer(Site(Folder(page=shown), Clock(), defer_to_thread=lambda _: fail(MemoryError())))
    found = peer.ask(text("GET", "/page", ZIPPED if error is MemoryError else "Accept: */*"))
    assert found.status == 500 and b"internal error" in found.body and not peer.closed
    assert len(logged_errors.take(error)) == 1


def test_a_child_that_fails(logged_errors: LoggedErrors) -> None:
    """So is a resource that fails to find its child, for requests with a body too."""

    class Broken(Resource):
        """A folder with an error."""

        def getChild(self, path: bytes, request: Any) -> Any:
            raise OSError

    for request in (text("GET", "/x/y"), text("POST", "/x/y", "Content-Length: 2") + b"ab"):
        assert Peer(make_site(x=Broken())).ask(request).status == 500
    assert len(logged_errors.take(OSError)) == 2


@pytest.mark.parametrize("is_late", [False, True])
def test_http_error(is_late: bool) -> None:
    """HttpError is an answer, not an internal error; the API sends it as JSON with code and place."""

    async def later(_: object) -> Response:
        raise HttpError(409, "taken", code="unknown-name", where="devices[0]")

    def now(_: object) -> Response:
        raise HttpError(409, "taken", code="unknown-name", where="devices[0]")

    shown = Page(later if is_late else now)
    assert asked(make_site(page=shown), "GET", "/page").body == b"taken\n"
    shown.errors_as_json = True
    answer = asked(make_site(page=shown), "GET", "/page")
    wanted = {"error": {"code": "unknown-name", "message": "taken", "where": "devices[0]"}}
    assert (answer.status, json.loads(answer.body)) == (409, wanted)


@pytest.mark.parametrize("end", [Response(200, LARGE), HttpError(400, "x")], ids=["answer", "error"])
def test_answer_after_the_client_has_left(end: Any) -> None:
    """It costs no error."""
    waiting: Deferred[Response] = Deferred()
    left: list[object] = []

    def answer(request: Any) -> Any:
        request.notifyFinish().addErrback(left.append)
        return waiting

    peer = Peer(make_site(page=Page(answer)))
    peer.send(text("GET", "/page"))
    peer.leave()
    assert len(left) == 1
    (waiting.callback if isinstance(end, Response) else waiting.errback)(end)
    assert peer.transport.value() == b""


def test_notify_finish() -> None:
    """It fires when the whole answer was handed over; a client that leaves in the middle costs no error."""
    finished: list[object] = []

    def answer(request: Any) -> Response:
        request.notifyFinish().addCallbacks(finished.append, lambda _: finished.append("left"))
        return Response(200, LARGE)

    for end in (Peer.read, lambda peer: peer.leave(aborted=True)):
        peer = Peer(make_site(page=Page(answer)))
        peer.transport.reading = False
        peer.send(text("GET", "/page"))
        assert "left" not in finished and len(finished) == (end is not Peer.read)
        peer.transport.reading = True
        end(peer)
    assert finished == [None, "left"]


def test_statistics() -> None:
    """Requests are counted by status with their duration; those that are under way, and those who left, too."""
    clock = Clock()
    waiting: Deferred[Response] = Deferred()
    responses = iter([Response(200, b"x"), waiting, Deferred()])
    shown = Page(lambda _: next(responses))
    shown.statistics = statistics = PageStatistics()
    site = make_site(clock, page=shown)
    peer, leaving = Peer(site), Peer(site)
    peer.send(text("GET", "/page"), text("PUT", "/page"), text("GET", "/page"))
    leaving.send(text("GET", "/page"))
    assert (statistics.codes, statistics.in_flight) == ({200: 1, 405: 1}, 2)
    clock.advance(2)
    waiting.callback(Response(503))
    leaving.leave()
    assert (statistics.codes, statistics.in_flight) == ({200: 1, 405: 1, 503: 1, 499: 1}, 0)
    assert (sum(statistics.durations.counts), statistics.durations.total_seconds) == (4, 4.0)


@pytest.mark.parametrize("headers", [(), (("Content-Security-Policy", "default-src 'self'"),)])
def test_every_page_has_a_policy(headers: tuple[tuple[str, str], ...]) -> None:
    """A text that was not escaped could load and run nothing; a page with a policy of its own has that one."""
    block = Response(200, b"<html>", "text/html; charset=utf-8", headers)
    lines = block.block(block.body).decode().split("\r\n")
    policies = [line for line in lines if line.startswith("Content-Security-Policy: ")]
    assert policies == [f"Content-Security-Policy: {headers[0][1]}"] if headers else "'none'" in policies[0]
    assert not any("Security-Policy" in line for line in Response().block(Response().body).decode().split("\r\n"))
