"""Requests for the devices of a claim: they are made again while the reason passes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fakedev.node.service_link import PATIENCE_SECONDS, RefusedByService, patiently


class Service:
    """Answers after some refusals; time passes only by sleeping."""

    def __init__(self, *codes: str) -> None:
        self.codes = [*codes]
        self.seconds = 0.0

    def ask(self) -> Mapping[str, object]:
        if self.codes:
            raise RefusedByService(self.codes.pop(0), "no")
        return {"devices": []}

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def asked(service: Service) -> Mapping[str, object]:
    return patiently(service.ask, lambda: service.seconds, service.sleep)


def test_a_board_is_divided_meanwhile() -> None:
    service = Service("unknown-name", "busy", "busy")
    assert asked(service) == {"devices": []}
    assert 0 < service.seconds < PATIENCE_SECONDS


@pytest.mark.parametrize("codes", [["busy"] * 1000, ["bad-argument"]])
def test_what_does_not_pass(codes: list[str]) -> None:
    """A kubelet waits for the answer: at some time it gets the refusal."""
    service = Service(*codes)
    with pytest.raises(RefusedByService, match=f"the service refuses: {codes[0]}: no"):
        asked(service)
    assert service.seconds <= PATIENCE_SECONDS
