"""Answers that are made in steps, without turns for others between them."""

from __future__ import annotations

from fakedev.web.response import Response
from fakedev.web.sliced_answers import Steps


def answer_of(steps: Steps) -> Response:
    """The answer of some steps."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            response: Response = done.value
            return response
