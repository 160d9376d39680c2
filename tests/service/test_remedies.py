"""How a user changes an address that cannot be listened on: by a key of the configuration, or by a drop-in's option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fakedev.commands.dropins import exporter, frontend
from fakedev.config.load import load
from fakedev.config.start import record_head
from fakedev.queues.part import make_frontend
from fakedev.runtime.application import Application
from fakedev.runtime.listening import CannotListen
from fakedev.runtime.part import Remedies
from fakedev.schema.files import Files
from fakedev.service.exporter_program import make_exporter
from fakedev.service.program_run import Run
from fakedev.service.service import make_application
from tests.support.application import SMALL, AppReactor

QUEUES = 'queues: {names: [a], listen-clients: ["127.0.0.1:9997"], listen-backends: ["127.0.0.1:9999"]}\n'


class Busy(AppReactor):
    """All addresses are in use."""

    def listenTCP(self, port: int, factory: Any, **options: Any) -> Any:
        raise OSError(98, "in use")

    def listenUNIX(self, address: str, factory: Any, **options: Any) -> Any:  # type: ignore[override]
        raise OSError(98, "in use")


def remedies(application: Application) -> Iterator[str]:
    """What each address says when it is in use, after its name and the reason."""
    for service in application.listeners:
        with pytest.raises(CannotListen) as refused:
            service.privilegedStartService()
        yield str(refused.value).partition("the address is in use by another program; ")[2]


def of_a_service(text: str) -> Iterator[str]:
    """Those of a configuration."""
    files = Files()
    configuration = load(None, files, text=text)
    return remedies(make_application(configuration, Run(record_head(configuration, files)), Busy()))


def of_an_exporter(text: str) -> Iterator[str]:
    """Those of the drop-in, with the configuration that it makes of its options."""
    files = Files()
    configuration = load(None, files, text=text)
    head = record_head(configuration, files)
    return remedies(make_exporter(configuration, head, Busy(), remedies=Remedies(exporter.OPTION_BY_KEY)))


def of_a_frontend() -> Iterator[str]:
    """Those of the drop-in."""
    options = frontend.FrontendOptions()
    queues, metrics = options.settings(options.flags.parse(["a"]))
    return remedies(make_frontend(queues, metrics, Busy()))


def test_of_the_service() -> None:
    """The key, and the option that sets it; a short option for the port of the first HTTP address."""
    text = SMALL.replace('web: ["127.0.0.1:9400"]', "web: [9400, 9401]") + QUEUES
    assert list(of_a_service(text)) == [
        "change web.0.listen (--port N, or --set web.0.listen=ADDRESS)",
        "change web.1.listen (--set web.1.listen=ADDRESS)",
        "change queues.listen-clients.0.listen (--set queues.listen-clients.0.listen=ADDRESS)",
        "change queues.listen-backends.0.listen (--set queues.listen-backends.0.listen=ADDRESS)",
        "change workloads.listen.0.listen (--set workloads.listen.0.listen=ADDRESS)",
    ]


def test_of_drop_ins() -> None:
    """Their own options: their users see no configuration."""
    assert list(of_an_exporter(SMALL)) == [
        "give another address with -address", "give another address with -socket"
    ]  # fmt: skip
    options = [f"give another address with {option}" for option in ("-maddr", "-caddr", "-waddr")]
    assert list(of_a_frontend()) == options
