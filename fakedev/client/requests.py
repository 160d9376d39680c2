"""Requests of calls, and how their answers are read."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, TypeVar

from fakedev.client.connection import Reply
from fakedev.client.errors import NoAnswer, RequestRefused

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])
#: What the API says of a workload, a fault, a device, ...: its keys are those of doc/http.md.
Description = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request of a call.

    :param body: sent as JSON; None: no body.
    :param is_page: whether the answer is a text, not a JSON object.
    :param is_long: whether the answer may take any time, as long as the service lives.
    """

    method: str
    path: str
    body: object = None
    is_page: bool = False
    is_long: bool = False

    @property
    def content(self) -> bytes | None:
        """The body as it is sent."""
        return None if self.body is None else json.dumps(self.body).encode()


#: A call: it yields requests, is sent their answers (JSON objects, or the texts of pages), and returns its result.
Call = Generator[Request, Any, T]


class CallUnderWay(Generic[T]):
    """A call whose requests somebody sends.

    :param url: of the service.
    :ivar request: the one that is to be sent; None: the call has its result.
    :ivar result: of the call, at its end.
    """

    request: Request | None
    result: T

    def __init__(self, url: str, call: Call[T]) -> None:
        self._url = url
        self._call = call
        self._go_on(None)

    def answered(self, reply: Reply) -> None:
        """Go on with the answer to the request.

        :raises RequestRefused: when the service has refused the request.
        :raises NoAnswer: when the answer is none of fakedev.
        """
        if reply.status >= 300:
            raise _refused(reply.status, reply.body)
        assert self.request is not None
        if self.request.is_page:
            self._go_on(reply.body.decode("utf-8", "replace"))
        else:
            self._go_on(self._json(self.request.path, reply.body))

    def _go_on(self, answer: object) -> None:
        try:
            self.request = self._call.send(answer)
        except StopIteration as ended:
            self.request, self.result = None, ended.value

    def _json(self, path: str, body: bytes) -> Description:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            text = f"{self._url}{path}: the answer is no JSON object: is this the API of fakedev? {body[:100]!r}"
            raise NoAnswer(text)
        return answer


def declared_by(call: Callable[..., Call[T]], method: Method) -> Method:
    """A method that makes a call, with the name, the parameters and the words of that."""
    declared = inspect.signature(call)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    result = str(declared.return_annotation).removeprefix("Call[").removesuffix("]")
    shown = declared.replace(parameters=[this, *declared.parameters.values()], return_annotation=result)
    update_wrapper(method, call)
    method.__signature__ = shown  # type: ignore[attr-defined]  # what help() and editors read
    return method


def _refused(status: int, body: bytes) -> RequestRefused:
    try:
        error = json.loads(body)["error"]
        return RequestRefused(str(error["message"]), status, str(error["code"]), str(error["where"]))
    except (ValueError, KeyError, TypeError):
        text = body.decode("utf-8", "replace").strip()
        return RequestRefused(text or f"status {status}", status)
