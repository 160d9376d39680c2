"""fakedev clone: what it writes, that its pages conform, and how it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fakedev.clone.cloning import rendered
from fakedev.commands.main import main
from fakedev.config.load import load
from fakedev.config.sample_page import sample_page
from fakedev.exporters.samples import CapturedPage, read_page
from fakedev.schema.files import Files
from tests.support.documents import clone_scores
from tests.support.examples import only_long
from tests.support.paths import GOLDEN

needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the reference texts are not at hand ({GOLDEN})")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page of two L40S boards, one of which works for a pod."""
    path = tmp_path / "node-1.prom"
    path.write_text(sample_page("dcgm@4.8.3", "l40s")[1])
    return path


def cloned(page: Path, *options: str, files: int = 1) -> str:
    """The configuration that a clone of a page writes; ``files``: how many files it writes.

    The release is given, because to find it takes seconds.
    """
    output = page.with_name("fleet.yaml")
    assert main(["clone", str(page), "--identity", "dcgm@4.8.3", "--output", str(output), *options]) == 0
    assert len(list(page.parent.glob("*.yaml"))) == files
    return output.read_text()


@pytest.mark.slow
def test_a_page_of_the_catalog_needs_no_identity_of_its_own(page: Path) -> None:
    """It is told which release it is, of which boards; the owner of the work is there."""
    assert main(["clone", str(page), "--output", str(page.with_name("fleet.yaml")), "--min", "100"]) == 0
    text = page.with_name("fleet.yaml").read_text()
    assert "its pages conform 100.0 %" in text
    configuration = load(str(page.with_name("fleet.yaml")), Files(environ={}))
    (pool,) = configuration.fleet.pools
    assert (pool.device_type.name, pool.devices_per_node) == ("l40s-48gb", 2)
    assert configuration.identities[pool.name].title == "dcgm@4.8.3"
    (work,) = configuration.fleet.base
    assert (work.devices, work.pod, work.namespace) == (("node-1/1",), "train-0", "ml")


@pytest.mark.slow
def test_the_same_page_gives_the_same_bytes(page: Path) -> None:
    """Also without names."""
    assert cloned(page) == cloned(page)
    assert cloned(page, "--anonymize") == cloned(page, "--anonymize")


@pytest.mark.slow
def test_no_name_remains(page: Path) -> None:
    """Of pods, nor UUIDs; the page still conforms."""
    named = load_uuids(cloned(page))
    text = cloned(page, "--anonymize", "--min", "100")
    assert "train-0" not in text
    assert not named & load_uuids(text)


def load_uuids(text: str) -> set[str]:
    return {word.strip(",") for line in text.splitlines() if "uuid:" in line for word in [line.split("uuid: ")[1][:36]]}


@pytest.mark.slow
def test_more_than_the_identity_has(page: Path) -> None:
    """Labels of all lines, families that are simulated, and such as keep their numbers; what cannot be is a comment."""
    text = page.read_text().replace('Hostname="', 'cluster="prod",Hostname="').replace(
        'hostname="', 'cluster="prod",hostname="'
    )  # fmt: skip
    labels = next(line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_GPU_TEMP{"))
    labels = labels[labels.index("{") : labels.index("}")]
    text = "# HELP DCGM_FI_DEV_POWER_MGMT_LIMIT Limit.\n# TYPE DCGM_FI_DEV_POWER_MGMT_LIMIT gauge\n" \
        f"DCGM_FI_DEV_POWER_MGMT_LIMIT{labels}}} 350\n" + text  # fmt: skip
    text += f"# HELP shop_queue Queue.\n# TYPE shop_queue gauge\nshop_queue{labels},lane=\"a\"}} 1.5\n"
    text += f"shop_queue{labels},lane=\"b\"}} 2.5\n# HELP up_for Up.\n# TYPE up_for counter\nup_for 7\n"
    page.write_text(text)
    configuration = cloned(page, "--min", "100", files=2)
    assert "label_cluster: prod" in configuration
    words = " ".join(configuration.replace("#", "").split())
    assert "they keep the numbers that were read: shop_queue -" in words
    assert "(fakedev learn fits it to days): up_for -" in words
    identity = page.with_name("fleet-identity.yaml").read_text()
    assert "{name: DCGM_FI_DEV_POWER_MGMT_LIMIT, type: gauge, help: Limit., format: go-fixed6, quantity: " in identity


@pytest.mark.slow
def test_hundreds_of_labels_and_families_in_another_order(page: Path) -> None:
    """The identity that is written can be read, and the pages conform; more input takes as much more time."""
    labels = "".join(f'label_{number}="x",' for number in range(150))
    lines = page.read_text().replace("{gpu=", f"{{{labels}gpu=").splitlines(keepends=True)
    first = next(place for place, line in enumerate(lines) if place and line.startswith("# HELP"))
    page.write_text("".join(lines[first:] + lines[:first]))
    cloned(page, "--min", "100", files=2)
    load(str(page.with_name("fleet.yaml")), Files(environ={}))
    assert "leading-labels: 15" in page.with_name("fleet-identity.yaml").read_text()


@pytest.mark.slow
def test_a_page_of_few_families(page: Path) -> None:
    """The exporter is the one whose families they are, and the load of the busy board fluctuates."""
    lines = page.read_text().splitlines(keepends=True)
    kept = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_POWER_USAGE")
    text = "".join(line for line in lines if any(f"{name}{end}" in line for name in kept for end in " {"))
    page.write_text(text.replace("} 100\n", "} 60\n"))
    output = page.with_name("fleet.yaml")
    assert main(["clone", str(page), "--output", str(output)]) == 0
    configuration = load(str(output), Files(environ={}))
    assert {identity.name for identity in configuration.identities.values()} <= {"dcgm", "dcgm-clone"}
    assert "kept_" not in output.read_text()
    assert "60:5:0" in output.read_text()


@pytest.mark.slow
def test_a_busy_board_that_draws_what_an_idle_one_draws(page: Path) -> None:
    """As one that the hardware slows down for its heat: its work is read again, with hardly any intensity."""
    lines = page.read_text().splitlines(keepends=True)
    page.write_text("".join(
        f"{line.rpartition(' ')[0]} 20\n" if line.startswith("DCGM_FI_DEV_POWER_USAGE{") else line for line in lines
    ))  # fmt: skip
    cloned(page)
    (work,) = load(str(page.with_name("fleet.yaml")), Files(environ={})).fleet.base
    assert [each.percent < 1 for each in work.intensities] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["525.60.13", "of 2026", *only_long("580.95.05", "590.48.01")])
def test_the_driver_of_the_page(page: Path, driver: str) -> None:
    """It is a key of the pool, where it is a version, and the clone has the series of the page: they depend on it."""
    page.write_text(sample_page("dcgm@4.8.3", "l4", facts={"driver_version": driver})[1])
    text = cloned(page, "--min", "100")
    is_version = driver[0].isdigit()
    assert (f"driver: {driver}\n" in text, "driver_version" in text) == (is_version, not is_version)
    again = rendered(text, page.with_name("fleet.yaml"), {}).page("dcgm@4.8.3")
    assert series(again) == series(read_page(page.read_text()))


def series(page: CapturedPage) -> set[tuple[object, ...]]:
    return {(name, sample.labels) for name, family in page.families.items() for sample in family.samples}


@pytest.mark.slow
def test_a_board_of_a_known_model(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It behaves as that model does, has its own name, and a note says so."""
    page.write_text(page.read_text().replace("NVIDIA L40S", "NVIDIA H100 NVL"))
    text = cloned(page)
    assert "device: h100-sxm5-80gb" in text and "product_name: NVIDIA H100 NVL" in text
    assert "note: the board 'NVIDIA H100 NVL' is in no device type: compared with" in capsys.readouterr().err


@pytest.mark.slow
def test_a_board_of_an_unknown_model(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no other board, unless the user says which."""
    page.write_text(page.read_text().replace("NVIDIA L40S", "NVIDIA Z9\u202e"))
    assert main(["clone", str(page), "--identity", "dcgm@4.8.3"]) == 2
    assert "no device type is of the model of the board 'NVIDIA Z9\\u202e'" in capsys.readouterr().err
    assert "device: l4-24gb" in cloned(page, "--device", "l4")


@pytest.mark.slow
def test_instances_that_a_board_cannot_have(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error has the profile and the node; the board can be named."""
    page.write_text(sample_page("dcgm@4.8.3", "h100", ["1g.10gb"] * 2)[1].replace("1g.10gb", "1g.11gb"))
    assert main(["clone", str(page), "--identity", "dcgm@4.8.3"]) == 2
    said = capsys.readouterr().err
    assert "device 0 of node-1 has instances of 1g.11gb, and h100-sxm5-80gb can have 1g.10gb, " in said


@pytest.mark.slow
def test_labels_without_a_value_stay(page: Path) -> None:
    """Exporters of AMD have many of them."""
    page.write_text(page.read_text().replace("{gpu=", '{empty="",gpu='))
    cloned(page, "--min", "100", files=2)
    assert "{name: empty, value: ''}" in page.with_name("fleet-identity.yaml").read_text()


@pytest.mark.slow
def test_histograms_are_counters(page: Path) -> None:
    """Each of their series goes on by itself; a comment says so."""
    page.write_text(page.read_text() + '# TYPE h histogram\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n')
    words = " ".join(cloned(page, files=2).replace("#", "").split())
    assert "random processes" in words and "h_bucket" in words and "h_count" in words and "h_sum" in words


@pytest.mark.slow
def test_nodes_of_different_exporters(page: Path) -> None:
    """Each has its own address, since their pages have families of the same names."""
    other = page.with_name("node-2.prom")
    other.write_text(sample_page("dcgm@3.0", "a100")[1].replace('"node-1"', '"node-2"'))
    output = page.with_name("fleet.yaml")
    assert main(["clone", str(page), str(other), "--output", str(output), "--min", "100"]) == 0
    configuration = load(str(output), Files(environ={}))
    assert [identity.title for identity in configuration.identities.values()] == ["dcgm@4.8.3", "dcgm@3.0"]
    assert configuration.web[0].per_node is not None


@pytest.mark.slow
def test_a_file_of_the_user_is_not_overwritten(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The identity's file has a name of its own; the configuration's is the one that was given."""
    page.write_text(page.read_text() + "up_for 7\n")
    own = page.with_name("fleet-identity.yaml")
    own.write_text("name: mine\n")
    output = str(page.with_name("fleet.yaml"))
    assert main(["clone", str(page), "--identity", "dcgm@4.8.3", "--output", output]) == 1
    said = capsys.readouterr().err
    assert said == (
        f"fakedev clone: {own}: is there, and not of a clone: name another file with --identity-output\n"
    )
    assert own.read_text() == "name: mine\n"
    own.unlink()
    os.mkfifo(own)  # to open it would wait
    assert main(["clone", str(page), "--identity", "dcgm@4.8.3", "--output", output]) == 1
    assert "not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no metric in it"),
        ("a 1\nb{\n", "line 2 is no sample: 'b{'"),
    ],
)
def test_wrong_pages(page: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    page.write_text(text)
    assert main(["clone", str(page)]) == 2
    assert capsys.readouterr().err.endswith(f": {said}\n")


UNKNOWN = """\
# TYPE card_power_watts gauge
card_power_watts{card="0"} 23.5
card_power_watts{card="1"} 45.25
# TYPE card_state gauge
card_state{card="0"} 2
# TYPE card_answers_total counter
card_answers_total{card="0"} 6048000
# TYPE card_wait_seconds histogram
card_wait_seconds_bucket{card="0",le="0.1"} 604800
card_wait_seconds_bucket{card="0",le="+Inf"} 1209600
card_wait_seconds_sum{card="0"} 604800.5
card_wait_seconds_count{card="0"} 1209600
"""


@pytest.mark.slow
def test_an_exporter_that_is_in_no_catalog(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its series move: counters grow by a week of what they show, numbers stay near it, states stay."""
    page.write_text(UNKNOWN)
    output = page.with_name("fleet.yaml")
    assert main(["clone", str(page), "--output", str(output)]) == 0
    said = capsys.readouterr().err
    assert "no exporter" in said
    remarks = " ".join(output.read_text().split("\n#   "))
    assert "card_power_watts, card_answers_total, card_wait_seconds_bucket" in remarks
    made = {str(path): path.read_text() for path in (output, output.with_name("fleet-identity.yaml"))}
    shown = rendered(output.read_text(), output, made).page("./fleet-identity.yaml").families
    watts = [float(sample.number) for sample in shown["card_power_watts"].samples]
    assert watts == [pytest.approx(23.5, rel=0.05), pytest.approx(45.25, rel=0.05)]
    assert watts != [23.5, 45.25]
    assert [sample.number for sample in shown["card_state"].samples] == ["2"]
    # 10, 1 and 2 a second, after 180 s; a stretch of a minute may not be over.
    assert float(shown["card_answers_total"].samples[0].number) == pytest.approx(1800, abs=600)
    buckets = [float(sample.number) for sample in shown["card_wait_seconds_bucket"].samples]
    assert buckets[1] == pytest.approx(2 * buckets[0], abs=1)
    assert buckets[1] == pytest.approx(float(shown["card_wait_seconds_count"].samples[0].number), abs=1)
    assert buckets[0] == pytest.approx(180, abs=60)


#: Other releases and boards of an exporter that make test clones, too.
SIMILAR = ("a100-idle", "rtx4000ada", "4.8.2.DERIVED", "hbm3__590.48.01__idle", "h200")
TEXTS = clone_scores.texts()
LONG = [path for path in TEXTS if any(part in path.name for part in SIMILAR)]


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [*(path for path in TEXTS if path not in LONG), *only_long(*LONG)], ids=lambda path: str(path.stem)[:45]
)
def test_clones_of_the_reference_texts(path: Path) -> None:
    """Each conforms fully, but for the families that are named with the reason."""
    result = clone_scores.clone_of(path)
    ((_, score),) = result.scores
    expected = {case.file: case.differs for case in clone_scores.DIFFERENT}.get(path.name, frozenset())
    assert {difference.family for difference in score.differences} == expected


@needs_golden
@pytest.mark.long
def test_the_document_has_the_scores() -> None:
    """As tests/support/documents/clone_scores.py writes them."""
    document = clone_scores.DOCUMENT.read_text(encoding="utf-8")
    assert document == clone_scores.with_own_section(document)
