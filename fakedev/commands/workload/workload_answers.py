"""What a server says to fakedev-workload: bytes, in any pieces, to the news in them.

Ours answers in JSON lines; the original's server says one digit, and nothing before it. A server
that has no room may say so in words (``error busy ...``) before it has read anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

_LONGEST_LINE: Final = 65536
_SHOWN: Final = 200


@dataclass(frozen=True)
class Accepted:
    """The workload runs, under this name of the server's."""

    workload: str


@dataclass(frozen=True)
class Verdict:
    """The end: the code to exit with and the reason.

    :param bare: whether it was the lone digit of an original server.
    """

    code: int
    text: str
    bare: bool = False


class AnswerReader:
    """Gathers the bytes of one connection; nothing is said after a verdict."""

    def __init__(self) -> None:
        self._buffer = b""
        self._accepted: Accepted | None = None
        self._heard_a_line = False
        self._over = False

    def feed(self, data: bytes) -> list[Accepted | Verdict]:
        """The news in these bytes and what came before."""
        news: list[Accepted | Verdict] = []
        if self._over:
            return news
        self._buffer += data
        while not self._over:
            if not self._heard_a_line:
                self._buffer = self._buffer.lstrip()
                if self._buffer[:1].isdigit():
                    return self._end(news, Verdict(int(self._buffer[:1]), "", bare=True))
            line, newline, rest = self._buffer.partition(b"\n")
            if len(line) > _LONGEST_LINE:
                return self._end(news, Verdict(1, f"the server's answer is longer than {_LONGEST_LINE} bytes"))
            if not newline:
                break
            self._buffer = rest
            self._take(line.strip(), news)
        return news

    def finish(self) -> Verdict:
        """The verdict when the server has closed the connection without giving one."""
        news: list[Accepted | Verdict] = []
        line = self._buffer.strip()
        if not line.startswith(b"{") or line.endswith(b"}"):  # else an answer that was cut off
            self._take(line, news)
        if news and isinstance(news[-1], Verdict):
            return news[-1]
        when = "while the workload ran" if self._accepted else "before it had answered"
        return Verdict(1, f"the server closed the connection {when}")

    def _take(self, line: bytes, news: list[Accepted | Verdict]) -> None:
        if not line:
            return
        self._heard_a_line = True
        said = self._understand(line)
        if isinstance(said, Verdict):
            self._end(news, said)
        elif said is not None:
            self._accepted = said
            news.append(said)

    def _understand(self, line: bytes) -> Accepted | Verdict | None:
        """What one line says; None for what does not concern this workload."""
        shown = line[:_SHOWN].decode("utf-8", "replace")
        if line.startswith(b"error "):
            return Verdict(1, f"the server refuses: {shown.removeprefix('error ')}")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            return Verdict(1, f"this is no answer of a workload server: {shown}")
        if "ok" in answer:
            return self._reply(answer)
        if answer.get("event") == "ended" and self._is_ours(answer.get("workload")):
            return _ended(answer)
        return None

    def _is_ours(self, workload: object) -> bool:
        """Whether an event is about this workload; a name that was left out is not held against it."""
        return self._accepted is None or not workload or self._accepted.workload in ("", workload)

    def _reply(self, answer: dict[str, object]) -> Accepted | Verdict:
        if answer["ok"] is True:
            return Accepted(str(answer.get("workload", "")))
        error = answer.get("error")
        details = error if isinstance(error, dict) else {}
        return Verdict(1, f"the server refuses: {details.get('code', 'error')} {details.get('message', '')}".rstrip())

    def _end(self, news: list[Accepted | Verdict], verdict: Verdict) -> list[Accepted | Verdict]:
        self._over = True
        self._buffer = b""
        news.append(verdict)
        return news


def _ended(event: dict[str, object]) -> Verdict:
    code = event.get("code")
    text = str(event.get("text", ""))
    if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code <= 255:
        return Verdict(1, f"the server gives no exit code from 0 to 255 but {code!r}, and says: {text}")
    return Verdict(code, text)
