"""``fakedev kube clean``: one cleaning, from the start of the reactor to its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from fakedev.app.kubernetes import make_client
from fakedev.net.kube.api_error import ApiError
from fakedev.net.kube.cleaning import Cleaning
from fakedev.net.system.signals import stop_reactor
from fakedev.spec.kubernetes import KubernetesSettings

_INTERRUPTED = 130


def clean_cluster(settings: KubernetesSettings, tell: Callable[[str], None], *, is_dry: bool) -> int:
    """Remove all that fakedev wrote to a cluster.

    :returns: 0; 1 after a line for each reason; 130 after Ctrl-C.
    :raises SystemExit: 2, when the API server of the settings cannot be used.
    """
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it

    client = make_client(settings, reactor)
    cleaning = Cleaning(client, tell, is_dry=is_dry)
    codes = []

    def done(_: object) -> None:
        codes.append(1 if cleaning.problems else 0)
        for text in cleaning.problems:
            sys.stderr.write(f"fakedev kube clean: {text}\n")
        tell(f"{cleaning.count} objects {'would be ' if is_dry else ''}cleaned")

    def failed(failure: Any) -> None:
        failure.trap(ApiError)
        codes.append(1)
        sys.stderr.write(f"fakedev kube clean: {failure.value.message}\n")

    def begin() -> None:
        running = Deferred.fromCoroutine(cleaning.clean()).addCallbacks(done, failed)
        running.addErrback(internal).addBoth(lambda _: client.stop()).addBoth(lambda _: stop_reactor(reactor))

    def internal(failure: Any) -> None:
        codes.append(1)
        sys.stderr.write(f"fakedev kube clean: an internal error: {failure.getTraceback()}")

    typed: Any = reactor
    typed.callWhenRunning(begin)
    typed.run()
    return codes[0] if codes else _INTERRUPTED
