"""How a user changes an address that cannot be listened on: by a key of the configuration, or by a drop-in's option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fakedev.app.options import Run, record_head
from fakedev.app.queues import make_frontend
from fakedev.app.service import make_application
from fakedev.commands.dropins import exporter
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.net.system.listening import CannotListen
from tests.support.application import SMALL, AppReactor

QUEUES = 'queues: {names: [a], listen-clients: ["127.0.0.1:9997"], listen-backends: ["127.0.0.1:9999"]}\n'


def remedies(text: str, option_of: Mapping[str, str] | None = None, is_frontend: bool = False) -> Iterator[str]:
    """What each address says when it is in use, after its name and the reason."""
    files = Files()
    configuration = load(None, files, text=text)

    class Busy(AppReactor):
        def listenTCP(self, port: int, factory: Any, **options: Any) -> Any:
            raise OSError(98, "in use")

        def listenUNIX(self, address: str, factory: Any, **options: Any) -> Any:  # type: ignore[override]
            raise OSError(98, "in use")

    run = Run(record_head(configuration, files), option_of=option_of or {})
    application = make_frontend(configuration, Busy()) if is_frontend else make_application(configuration, run, Busy())
    for service in application.listeners:
        with pytest.raises(CannotListen) as refused:
            service.privilegedStartService()
        yield str(refused.value).partition("the address is in use by another program; ")[2]


def test_of_the_service() -> None:
    """The key, and the option that sets it; a short option for the port of the first HTTP address."""
    text = SMALL.replace('web: ["127.0.0.1:9400"]', "web: [9400, 9401]") + QUEUES
    assert list(remedies(text)) == [
        "change web.0.listen (--port N, or --set web.0.listen=ADDRESS)",
        "change web.1.listen (--set web.1.listen=ADDRESS)",
        "change queues.listen-clients.0.listen (--set queues.listen-clients.0.listen=ADDRESS)",
        "change queues.listen-backends.0.listen (--set queues.listen-backends.0.listen=ADDRESS)",
        "change workloads.listen.0.listen (--set workloads.listen.0.listen=ADDRESS)",
    ]


def test_of_drop_ins() -> None:
    """Their own options: their users see no configuration."""
    assert list(remedies(SMALL, exporter.OPTION_OF)) == [
        "give another address with -address", "give another address with -socket"
    ]  # fmt: skip
    options = [f"give another address with {option}" for option in ("-maddr", "-caddr", "-waddr")]
    assert list(remedies("web: [9400]\nworkloads: {listen: []}\n" + QUEUES, is_frontend=True)) == options
