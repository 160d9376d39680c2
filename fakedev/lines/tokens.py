"""The tokens of an address of a line port, with the limit of wrong ones."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final

from twisted.internet.interfaces import IReactorTime

from fakedev.lines.grammar import ProtocolError

#: Seconds from the connection to its token.
TOKEN_SECONDS: Final = 5.0
#: Bytes of a message before the token.
MAX_BYTES_BEFORE_TOKEN: Final = 4096
#: Wrong tokens that one host may send in one span; further ones are not compared.
MAX_WRONG: Final = 10
SPAN_SECONDS: Final = 10.0
#: Hosts whose wrong tokens are counted; beyond it the oldest count is dropped.
_MAX_HOSTS: Final = 1000


def token_of(name: str, token: str) -> str:
    """A token that admits a peer only under one name; it does not reveal the token of another name.

    :param token: of the address.
    """
    return f"{name}:{hmac.new(token.encode(), name.encode(), 'sha256').hexdigest()}"


class TokenGate:
    """Admits peers that have one of the tokens; without tokens, all.

    :ivar tokens: change them with :meth:`change`; peers that were admitted stay.
    """

    def __init__(self, clock: IReactorTime, tokens: Iterable[str] = ()) -> None:
        self._clock = clock
        self._wrong: dict[str, tuple[float, int]] = {}  # by host: when the span began, and the wrong tokens in it
        self.change(tokens)

    def change(self, tokens: Iterable[str]) -> None:
        """Use these tokens from now on."""
        self._tokens = tuple(token.encode() for token in tokens)

    @property
    def is_open(self) -> bool:
        """Whether peers need no token."""
        return not self._tokens

    def has(self, token: str, name: str = "") -> bool:
        """Whether a token is one of the address, or with a name: its token for that name."""
        given = token.encode("utf-8", "surrogatepass")
        known = (own if not name else token_of(name, own.decode()).encode() for own in self._tokens)
        # All are compared, so that the time shows neither which one is right nor how far a wrong one is.
        return bool(sum([hmac.compare_digest(given, one) for one in known]))

    def check(self, token: str, host: str, name: str = "") -> str:
        """The text of the answer to a token that admits a peer.

        :param name: also the token for this name does.
        :param host: of the peer; on a UNIX socket its process.
        :raises ProtocolError: fatal: ``denied``; ``busy`` when the host has sent too many wrong tokens.
        """
        if self.is_open:
            return "no token is needed here"
        now = self._clock.seconds()
        began, count = self._wrong.get(host, (now, 0))
        if now - began >= SPAN_SECONDS:
            began, count = now, 0
        if count >= MAX_WRONG:
            text = f"too many wrong tokens; try again in {began + SPAN_SECONDS - now:.0f} s"
            raise ProtocolError("busy", text, fatal=True)
        if not self.has(token) | (bool(name) and self.has(token, name)):
            self._wrong.pop(host, None)
            self._wrong[host] = (began, count + 1)
            if len(self._wrong) > _MAX_HOSTS:
                del self._wrong[next(iter(self._wrong))]
            raise ProtocolError("denied", "the token is wrong", fatal=True)
        return ""


def token_missing(is_bare: bool) -> ProtocolError:
    """The error for a message before the token."""
    if is_bare:
        text = "this port requires a token, which bare JSON cannot send: use words or JSON lines"
    else:
        text = "this port requires a token first: auth TOKEN"
    return ProtocolError("denied", text, fatal=True)
