"""Resources: methods, errors, answers that come later, compression."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from fakedev.net.http.access_guard import AccessGuard
from fakedev.net.http.body import Body
from fakedev.net.http.resource import Folder, GuardedResource
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.net.http.site import GuardedSite
from fakedev.net.http.statistics import PageStatistics
from tests.support.http_wire import Echo, Page, Peer, Threads, answers, make_site, no_threads
from tests.support.logged_errors import LoggedErrors

LARGE = Body(b"".join(b"metric_%d 1.0\n" % number for number in range(20_000)))
ZIPPED = "Accept-Encoding: gzip"


def text(method: str, path: str, *headers: str) -> bytes:
    """A request without a body."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def page(answer: Any) -> Page:
    """A resource that always answers with ``answer``."""
    return Page(lambda _: answer)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST", "DELETE", "OPTIONS", "TRACE", "FOOBAR", "get", "CONNECT"])
def test_methods_that_are_not_allowed(method: str) -> None:
    """Every method that a resource does not implement is 405, and Allow says which it does."""
    shown = page(Response(200, b"x"))
    answer = Peer(make_site(page=shown)).ask(text(method, "/page"))
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert shown.asked == 0


def test_allow_names_all() -> None:
    """Allow follows what the class implements, inherited or not."""

    class More(Echo):
        """A subclass that adds nothing."""

    answer = Peer(make_site(echo=More())).ask(text("PUT", "/echo"))
    assert answer.headers["allow"] == "GET, HEAD, POST, DELETE"
    assert json.loads(answer.body)["error"]["code"] == "method-not-allowed"


def test_options_of_everything() -> None:
    """``OPTIONS *`` is no way around."""
    assert Peer(make_site()).ask(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status == 404


def test_head() -> None:
    """HEAD gives the headers of GET and no body, and the connection continues in order."""
    site = make_site(page=page(Response(200, b"content", "text/x")))
    got = Peer(site).ask(text("GET", "/page"))
    peer = Peer(site)
    first, second = answers(peer.send(text("HEAD", "/page") * 2), heads=True)
    assert first.headers == second.headers == got.headers
    assert not peer.closed


def test_head_of_a_large_page() -> None:
    """HEAD of a page that goes out in pieces sends none of them."""
    peer = Peer(make_site(page=page(Response(200, LARGE))))
    (head,) = answers(peer.send(text("HEAD", "/page")), heads=True)
    assert head.headers["content-length"] == str(LARGE.length)


def test_head_may_be_forbidden() -> None:
    """Where an original refused HEAD it can be refused here."""
    shown = page(Response())
    shown.allow_head = False
    (answer,) = answers(Peer(make_site(page=shown)).send(text("HEAD", "/page")), heads=True)
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


def test_head_changes_nothing() -> None:
    """HEAD on a resource that takes changes makes none."""
    echo = Echo()
    Peer(make_site(echo=echo)).send(text("HEAD", "/echo"))
    assert not echo.changes


@pytest.mark.parametrize(
    "path", ["/none", "/page/more", "/page/", "/page//", "/", "//page", "/folder", "/folder/x/y", "/%70age/x"]
)
def test_nothing_there(path: str) -> None:
    """404 for unknown and longer paths, and for folders, in one line of text."""
    answer = Peer(make_site(page=page(Response()), folder=Folder())).ask(text("GET", path))
    assert (answer.status, answer.body.startswith(b"nothing is here"), answer.body.count(b"\n")) == (404, True, 1)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_paths() -> None:
    """Paths are found with a query and with escapes, and below folders."""
    site = make_site(folder=Folder(page=page(Response(200, b"x"))))
    for path in ("/folder/page", "/folder/page?a=b", "/f%6Flder/page"):
        assert Peer(site).ask(text("GET", path)).status == 200


def test_not_found_is_json_in_the_api() -> None:
    """Below an API folder errors are JSON."""
    answer = Peer(make_site(api=Folder(errors_as_json=True))).ask(text("GET", "/api/none"))
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body) == {"error": {"code": "not-found", "message": "nothing is here", "where": ""}}


def test_changes() -> None:
    """POST and DELETE reach the resource; 204 has no body and no length."""
    echo = Echo()
    peer = Peer(make_site(echo=echo))
    peer.send(text("POST", "/echo", "Content-Length: 5") + b"hello", text("POST", "/echo"), text("DELETE", "/echo"))
    assert echo.changes == [("post", b"hello"), ("post", b""), ("delete", b"")]
    last = answers(peer.transport.value())[-1]
    assert last.status == 204 and "content-length" not in last.headers


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_guard_of_changes(method: str) -> None:
    """Changes from foreign pages, by foreign names or without the token are refused; reading a page is not."""
    echo = Echo()
    site = GuardedSite(Folder(echo=echo), Clock(), guard=AccessGuard(["sim.example"], token="T"))
    foreign = text(method, "/echo", "Origin: http://evil.example", "Authorization: Bearer T")
    assert Peer(site).ask(foreign).status == 403
    assert Peer(site).ask(text(method, "/echo").replace(b"localhost", b"evil.example")).status == 403
    refused = Peer(site).ask(text(method, "/echo"))
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert Peer(site).ask(text("GET", "/echo", "Origin: http://evil.example")).body == b"0"
    good = text(method, "/echo", "Authorization: Bearer T").replace(b"localhost", b"sim.example:1")
    assert Peer(site).ask(good).status in (201, 204)
    assert Peer(site).ask(good.replace(b"sim.example", b"evil.example")).status in (201, 204)
    assert len(echo.changes) == 2


def test_unix_socket() -> None:
    """Over a UNIX socket any Host will do."""
    site = make_site(echo=Echo())
    request = text("POST", "/echo").replace(b"localhost", b"whatever")
    assert Peer(site).ask(request).status == 403
    assert Peer(site, unix=True).ask(request).status == 201


def test_json() -> None:
    """JSON is compact and ends with a line end."""
    answer = Peer(make_site(page=page(json_response({"a": [1, None, "é"]}, 202)))).ask(text("GET", "/page"))
    assert (answer.status, answer.body) == (202, '{"a":[1,null,"é"]}\n'.encode())


def test_bad_header_values() -> None:
    """A header that would break the response is refused."""
    with pytest.raises(ValueError):
        response = Response(200, b"", headers=[("X", "a\r\nSet-Cookie: b")])
        response.block(response.body, False)


def test_gzip() -> None:
    """gzip only when asked; the same bytes after decompression; once for all requests."""
    response = Response(200, b"content" * 100)
    site = make_site(page=page(response))
    plain = Peer(site).ask(text("GET", "/page", "Accept-Encoding: gzip;q=0"))
    assert "content-encoding" not in plain.headers and plain.body == b"content" * 100
    zipped = Peer(site).ask(text("GET", "/page", ZIPPED))
    assert zipped.headers["content-encoding"] == "gzip" and gzip.decompress(zipped.body) == plain.body
    assert plain.headers["vary"] == zipped.headers["vary"] == "Accept-Encoding"
    assert Peer(site).ask(text("GET", "/page", ZIPPED)) == zipped
    assert response.body.compressed(no_threads) is response.body.compressed(no_threads)
    (head,) = answers(Peer(site).send(text("HEAD", "/page", ZIPPED)), heads=True)
    assert head.headers == zipped.headers


def test_large_gzip_is_made_once() -> None:
    """Three scrapers that ask at the same time share one compression; one of them leaves meanwhile."""
    threads = Threads()
    site = GuardedSite(Folder(page=page(Response(200, Body(bytes(LARGE))))), Clock(), defer_to_thread=threads)
    peers = [Peer(site) for _ in range(3)]
    for peer in peers:
        assert peer.send(text("GET", "/page", ZIPPED)) == b""
    peers[1].leave()
    assert len(threads.waiting) == 1
    work, done = threads.waiting.pop()
    done.callback(work())
    for peer in (peers[0], peers[2]):
        peer.read()
        assert gzip.decompress(answers(peer.transport.value())[0].body) == bytes(LARGE)
    assert peers[1].transport.value() == b"" and not peers[1].transport.unsent


class TestCounting:
    """What goes wrong, in tests that look at the log."""

    def ask(self, answer: Callable[[Any], Any], api: bool = False) -> Any:
        """What a client gets from a resource that answers so."""
        shown = Page(answer)
        shown.errors_as_json = api
        peer = Peer(make_site(page=shown))
        found = peer.ask(text("GET", "/page"))
        assert not peer.closed
        return found

    def test_exception(self, logged_errors: LoggedErrors) -> None:
        """An exception is 500 without details for the client, and a failure in our log; the connection lives."""
        for api in (False, True):
            answer = self.ask(lambda _: 1 // 0, api)
            assert answer.status == 500
            assert b"zero" not in answer.body
        assert len(logged_errors.take(ZeroDivisionError)) == 2

    def test_later_exception(self, logged_errors: LoggedErrors) -> None:
        """So is one in a Deferred or a coroutine."""

        async def fails(_: Any) -> Response:
            raise KeyError("x")

        assert self.ask(fails).status == 500
        assert len(logged_errors.take(KeyError)) == 1

    def test_not_a_response(self, logged_errors: LoggedErrors) -> None:
        """So is an answer that is none."""
        assert self.ask(lambda _: b"bytes").status == 500
        assert len(logged_errors.take(TypeError)) == 1

    def test_unsendable_response(self, logged_errors: LoggedErrors) -> None:
        """So is a response that cannot be sent."""
        assert self.ask(lambda _: Response(200, b"x", "text/\n")).status == 500
        assert len(logged_errors.take(ValueError)) == 1

    def test_failed_compression(self, logged_errors: LoggedErrors) -> None:
        """So is a compression that fails."""

        def no_memory(_: Any) -> Deferred[list[bytes]]:
            failed: Deferred[list[bytes]] = Deferred()
            failed.errback(MemoryError())
            return failed

        site = GuardedSite(Folder(page=page(Response(200, Body(bytes(LARGE))))), Clock(), defer_to_thread=no_memory)
        assert Peer(site).ask(text("GET", "/page", ZIPPED)).status == 500
        assert len(logged_errors.take(MemoryError)) == 1

    def test_child_that_fails(self, logged_errors: LoggedErrors) -> None:
        """So is a resource that fails to find its child, for requests with a body too."""

        class Broken(GuardedResource):
            """A folder with an error."""

            def find_child(self, path: bytes, request: Any) -> Any:
                """Fail."""
                raise OSError

        for request in (text("GET", "/x/y"), text("POST", "/x/y", "Content-Length: 2") + b"ab"):
            assert Peer(make_site(x=Broken())).ask(request).status == 500
        assert len(logged_errors.take(OSError)) == 2

    def test_http_error(self) -> None:
        """HttpError is an answer, not an internal error; the API sends it as JSON with code and place."""

        async def later(request: Any) -> Response:
            return fail(request)

        def fail(_: Any) -> Response:
            raise HttpError(409, "taken", code="unknown-name", where="devices[0]")

        for answer in (fail, later):
            assert self.ask(answer).body == b"taken\n"
            got = self.ask(answer, api=True)
            wanted = {"error": {"code": "unknown-name", "message": "taken", "where": "devices[0]"}}
            assert (got.status, json.loads(got.body)) == (409, wanted)

    def test_answer_after_the_client_has_left(self) -> None:
        """A client that leaves before its answer costs no error, whether the answer is good or bad."""
        for end in (lambda d: d.callback(Response(200, LARGE)), lambda d: d.errback(HttpError(400, "x"))):
            waiting: Deferred[Response] = Deferred()
            left: list[object] = []

            def answer(request: Any, waiting: Any = waiting, left: Any = left) -> Any:
                request.notify_finish().addErrback(left.append)
                return waiting

            peer = Peer(make_site(page=Page(answer)))
            peer.send(text("GET", "/page"))
            peer.leave()
            assert len(left) == 1
            end(waiting)
            assert peer.transport.value() == b""

    def test_client_leaves_in_the_middle(self) -> None:
        """A client that leaves in the middle of a large page costs no error."""
        peer = Peer(make_site(page=page(Response(200, LARGE))))
        peer.transport.reading = False
        peer.send(text("GET", "/page"))
        peer.leave(aborted=True)

    def test_notify_finish(self) -> None:
        """notifyFinish fires when the whole answer was handed over."""
        finished: list[object] = []

        def answer(request: Any) -> Response:
            request.notify_finish().addCallback(finished.append)
            return Response(200, LARGE)

        peer = Peer(make_site(page=Page(answer)))
        peer.transport.reading = False
        peer.send(text("GET", "/page"))
        assert finished == []
        peer.transport.reading = True
        peer.read()
        assert finished == [None]


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
