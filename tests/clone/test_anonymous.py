"""Pages without names: no text of a user remains, equal ones stay equal, numbers stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.clone.scraped import PageGroup, SourcePage, anonymous_groups
from fakedev.exporters.samples import CapturedFamily, CapturedPage, Sample, read_page

UUID = "GPU-927d7444-b45a-7c49-8402-5e686e46a026"
WORDS = st.text(st.characters(categories=["Ll"]), min_size=8)


def anonymous(text: str) -> list[dict[str, str]]:
    (group,) = anonymous_groups([PageGroup((SourcePage("secret-host", read_page(text)),))])
    assert group.pages[0].name == "page-1"
    return [dict(sample.labels) for family in group.pages[0].page.families.values() for sample in family.samples]


def test_names_change_and_models_stay() -> None:
    """Names of nodes, pods and teams; not boards, versions, indices and addresses."""
    line = (
        f'a{{gpu="0",UUID="{UUID}",pci_bus_id="00000000:1B:00.0",modelName="NVIDIA H100 80GB HBM3",Hostname="secret",'
        'DCGM_FI_DRIVER_VERSION="550.163.01",pod="secret-pod",team="secret",serial="123"} 1\n'
    )
    first, second = anonymous(line + line)
    assert first == second
    assert "secret" not in str(first) and UUID not in str(first)
    assert first["UUID"].startswith("GPU-")
    assert (first["Hostname"], first["pod"], first["team"], first["serial"]) == (
        "node-1", "pod-1", "team-1", "serial-1",
    )  # fmt: skip
    kept = {"gpu": "0", "pci_bus_id": "00000000:1B:00.0", "modelName": "NVIDIA H100 80GB HBM3"}
    assert kept.items() <= first.items()
    assert first["DCGM_FI_DRIVER_VERSION"] == "550.163.01"


@pytest.mark.parametrize("is_of_boards", [True, False])
def test_names_that_stay_on_pages_of_boards_alone(is_of_boards: bool) -> None:
    """Exporters of other things have private texts in labels as `name`; job numbers are private on all pages."""
    line = 'a{model_name="secret-llm",name="secret.service",mode="idle",hpc_job="4711",gpu="7"} 1\n'
    page = PageGroup((SourcePage("p", read_page(line)),))
    (group,) = anonymous_groups([page], is_of_boards=lambda _: is_of_boards)
    text = str(group.pages[0].page)
    assert ("secret-llm" in text, "secret.service" in text) == (is_of_boards, is_of_boards)
    assert "4711" not in text and "idle" in text and "'7'" in text


@given(st.lists(st.tuples(st.sampled_from(["pod", "namespace", "Hostname", "x_y"]), WORDS), min_size=1))
def test_equal_texts_stay_equal(labels: list[tuple[str, str]]) -> None:
    family = CapturedFamily("a", "gauge", "A.", tuple(Sample((label,), "1", has_timestamp=False) for label in labels))
    page = SourcePage("p", CapturedPage({"a": family}, is_declared_first=False))
    (group,) = anonymous_groups([PageGroup((page,))])
    found = [sample.labels[0] for sample in group.pages[0].page.families["a"].samples]
    assert len(set(zip(labels, found, strict=True))) == len(set(labels)) == len(set(found))
    assert all(before != after for (_, before), (_, after) in zip(labels, found, strict=True))
