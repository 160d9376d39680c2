"""/api/v1/find: the devices that a text finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.application import MemoryApplication, application

CONFIG = """
version: 1
fleet:
  pools:
    - {name: train, nodes: [dgx-0, dgx-1], device: h100, devices-per-node: 2, identity: dcgm}
    - {name: split, nodes: [mig-0], device: a100, devices-per-node: 2, mig: [3g.20gb, 1g.5gb], identity: dcgm}
web: ["127.0.0.1:9400"]
workloads: {listen: []}
"""


@pytest.fixture(scope="module")
def app() -> Iterator[MemoryApplication]:
    """Two pools with work on some devices."""
    with application(CONFIG) as running:
        devices = ["dgx-0/1", "mig-0/1/0"]
        body = {"name": "Llama", "devices": devices, "profile": "50:0:0", "pod": "chat-7", "namespace": "ml"}
        assert running.ask("POST", "/api/v1/workloads", body).status == 201
        running.tick(1)
        yield running


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("dgx-1", ["dgx-1/0", "dgx-1/1"]),
        ("SPLIT", ["mig-0/0", "mig-0/1"]),
        ("h100", ["dgx-0/0", "dgx-0/1", "dgx-1/0", "dgx-1/1"]),
        ("llama", ["dgx-0/1", "mig-0/1"]),
        ("chat-", ["dgx-0/1", "mig-0/1"]),
        ("ml", ["dgx-0/1", "mig-0/1"]),
        ("nothing", []),
    ],
)
def test_a_text_finds(app: MemoryApplication, text: str, devices: list[str]) -> None:
    """Nodes, pools, models, workloads, pods and namespaces, without regard to case; a board for its instance."""
    assert app.json(f"/api/v1/find?text={text}") == {"devices": devices, "total": len(devices)}


def test_bad_texts(app: MemoryApplication) -> None:
    for query in ("", "?text=", f"?text={'x' * 101}"):
        assert app.get(f"/api/v1/find{query}").status == 400
