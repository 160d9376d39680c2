"""fakedev learn: a simulated fleet is learnt from its own series, without a name of it, and mistakes are told."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from statistics import median

import pytest
import yaml

from fakedev.commands.main import main
from fakedev.config.load import load
from fakedev.exporters.samples import Row, read_lines
from fakedev.fleet.cluster.jobs import Arrivals
from fakedev.fleet.spec.cluster_spec import ClusterSpec
from fakedev.schema.files import Files

TRUTH = """
fleet:
  seed: 7
  epoch: "2027-01-18T00:00:00Z"
  tick: 60s
  cluster:
    load: 0.6
    day: 0
    weekend: 1
    jobs:
      - {name: train, share: 3, sizes: {1: 50, 2: 30, 4: 20}, lasts: 12m, spread: 1.6, memory: [0.5, 0.7],
         profile: "80:2:0", namespace: secret-lab, ending: 0s}
      - {name: judge, share: 1, sizes: {1: 1}, lasts: 5m, spread: 1.3, memory: [0.1, 0.2], profile: "30:5:0",
         namespace: open-lab, ending: 0s}
  pools: [{name: hidden, nodes: 3, device: l40s, devices-per-node: 4, identity: ./own.yaml}]
web: [{listen: "127.0.0.1:9400"}]
"""
#: A family that no catalog has, with a label of its own.
OWN = """
name: own
based-on: dcgm@4.8.3
also:
- {name: own_speed, type: gauge, help: speed, format: go-whole, labels: [{name: hall, value: secret-hall}],
   random: {quantiles: [1000, 1200, 5000], lasts: 10m}}
"""


def seen(folder: Path, span: str) -> list[str]:
    """The fleet's series over some time, in files."""
    (folder / "truth.yaml").write_text(TRUTH)
    (folder / "own.yaml").write_text(OWN)
    command = ["render", "--config", str(folder / "truth.yaml"), "--for", span, "--openmetrics"]
    assert main([*command, "--output", str(folder / "history")]) == 0
    return [str(path) for path in sorted((folder / "history").iterdir())]


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """An hour of it: enough for all but the distributions."""
    return seen(tmp_path_factory.mktemp("learn"), "1h")


def learnt(history: list[str], output: Path, *options: str) -> ClusterSpec:
    """The cluster of the configuration that is written."""
    command = ["learn", *history, "--identity", "dcgm@4.8.3", "--output", str(output), *options]
    assert main(command) == 0
    cluster = load(str(output), Files(environ={})).fleet.cluster
    assert cluster is not None
    return cluster


@pytest.mark.slow
def test_the_closed_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Inventory, kinds, sizes, lengths, usage and memory are those of the jobs that were drawn in these hours."""
    history = seen(tmp_path, "4h")
    cluster = learnt(history, tmp_path / "fleet.yaml", "--keep", "names")
    fleet = load(str(tmp_path / "fleet.yaml"), Files(environ={})).fleet
    assert [node.name for pool in fleet.pools for node in pool.nodes] == ["hidden-0", "hidden-1", "hidden-2"]
    assert {(pool.device_type.name, pool.devices_per_node) for pool in fleet.pools} == {("l40s-48gb", 4)}
    truth = load(str(tmp_path / "truth.yaml"), Files(environ={})).fleet
    assert truth.cluster is not None
    arrivals = Arrivals(truth.seed, truth.cluster, 12, 4)
    drawn = [job for slot in range(240) for job in arrivals.in_slot(slot, truth.epoch_seconds)]
    train, judge = cluster.jobs
    assert (train.workload.name, judge.workload.name) == ("secret-lab-train", "open-lab-judge")
    for kind, name in ((train, "train"), (judge, "judge")):
        lengths = [job.left_seconds for job in drawn if job.kind == name]
        # Values come once a minute, and work ends with a tick.
        assert kind.lasts_seconds == pytest.approx(median(lengths), rel=0.1)
    assert [train.spread, judge.spread] == pytest.approx([1.6, 1.3], rel=0.1)
    assert dict(train.sizes) == Counter(job.size for job in drawn if job.kind == "train")
    # Jobs of a minute have not filled theirs yet, so that the least says little.
    assert train.memory[1:] == pytest.approx((0.55, 0.6, 0.65, 0.7), abs=0.04)
    assert judge.memory[1:] == pytest.approx((0.125, 0.15, 0.175, 0.2), abs=0.04)
    asked = sum(job.size * job.left_seconds for job in drawn) / (12 * 4 * 3600)
    assert cluster.load == pytest.approx(asked, rel=0.1)
    text = (tmp_path / "fleet-identity.yaml").read_text()
    pace = re.search(r"own_speed.*?lasts: (\d+)s", text, re.S)
    assert pace is not None
    assert float(pace[1]) == pytest.approx(600, rel=0.25)
    shown = re.findall(r" learnt .* (\d\.\d{3})(?: \(far\))?$", capsys.readouterr().out, re.M)
    distances = [float(number) for number in shown]
    assert len(distances) == 8
    assert max(distances) < 0.12


@pytest.mark.slow
def test_nothing_private(hour: list[str], tmp_path: Path) -> None:
    """No text of a label of the series is in the files, but the words that exporters fill in, numbers and addresses.

    Nor is one in the trace that `replay` takes.
    """
    trace = tmp_path / "trace"
    learnt(hour, tmp_path / "fleet.yaml", "--trace", str(trace))
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert main(["replay", "jobs", str(trace), "--check"]) == 0
    assert len((trace / "jobs.csv").read_text().splitlines()) > 20
    stays = {"modelName", "DCGM_FI_DRIVER_VERSION", "pci_bus_id", "device", "gpu", "job", "le", "err_code", "err_msg"}
    texts = {
        text
        for path in hour
        for _, row in read_lines(Path(path).read_bytes()) if isinstance(row, Row)
        for name, text in row.labels if name not in stays
    }  # fmt: skip
    assert {"secret-lab", "secret-hall", "hidden-0"} <= texts
    assert [text for text in sorted(texts) if len(text) > 1 and text in written] == []
    assert not re.search("train(?!ing)|judge|hidden", written)


@pytest.mark.slow
def test_names_that_are_kept(hour: list[str], tmp_path: Path) -> None:
    """Those of the labels that are listed, and no others."""
    cluster = learnt(hour, tmp_path / "fleet.yaml", "--keep", "namespace,Hostname")
    assert [(kind.workload.name, kind.workload.namespace) for kind in cluster.jobs] == [
        ("work-1", "secret-lab"), ("work-2", "open-lab"),
    ]  # fmt: skip
    text = (tmp_path / "fleet.yaml").read_text()
    assert "hidden-0" in text
    assert not re.search("train(?!ing)|judge", text)  # training is a kind of work, which learn may find


@pytest.mark.slow
def test_nodes_that_are_away_at_the_end(hour: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One is left out, with its work, and named; where all are away the time ends with their last page."""
    lines = Path(hour[-1]).read_text().splitlines(keepends=True)
    last = float(lines[-2].rpartition(" ")[2])
    one, every = tmp_path / "one.om", tmp_path / "every.om"

    def write(path: Path, away: str) -> None:
        """The series without the last ten minutes of some nodes, of which Prometheus' own series go on."""
        path.write_text("".join(
            line for line in lines if line.startswith(("#", "up", "scrape_")) or away not in line
            or float(line.rpartition(" ")[2]) < last - 600
        ))

    write(one, "hidden-1")
    write(every, "hidden-")
    for path, nodes in ((one, ["hidden-0", "hidden-2"]), (every, ["hidden-0", "hidden-1", "hidden-2"])):
        output = tmp_path / f"{path.stem}.yaml"
        learnt([str(path)], output, "--keep", "names")
        assert [node.name for pool in load(str(output), Files(environ={})).fleet.pools for node in pool.nodes] == nodes
        assert ("hidden-1" in capsys.readouterr().err) == (path == one)


@pytest.mark.slow
def test_a_node_without_a_label(hour: list[str], tmp_path: Path) -> None:
    """It lacks the label in the learnt fleet, too; its boards and their jobs are learnt all the same."""
    for number, path in enumerate(hour):
        lines = Path(path).read_text().splitlines(keepends=True)
        (tmp_path / f"{number}.om").write_text("".join(
            re.sub('modelName="[^"]*",', "", line) if 'hostname="hidden-1"' in line else line for line in lines
        ))  # fmt: skip
    files = [str(path) for path in sorted(tmp_path.iterdir())]
    cluster = learnt(files, tmp_path / "fleet.yaml", "--keep", "names")
    assert len(cluster.jobs) == 2
    pools = yaml.safe_load((tmp_path / "fleet.yaml").read_text())["fleet"]["pools"]
    labels = {node: pool.get("labels") for pool in pools for node in pool["nodes"]}
    assert labels == {"hidden-0": None, "hidden-1": {"product_name": ""}, "hidden-2": None}


@pytest.mark.slow
def test_an_unknown_exporter(tmp_path: Path) -> None:
    """Each family keeps its type and text, and moves: a number as far as it did, a counter upwards."""
    lines = ["# TYPE own_speed gauge", "# HELP own_speed how fast", "# TYPE own_parts counter"]
    for minute in range(60):
        speed = 20 + 7 * minute % 13
        lines.append(f'own_speed{{name="secret.service"}} {speed} {60 * minute}')
        lines.append(f"own_parts_total {5 * minute} {60 * minute}")
    (tmp_path / "own.om").write_text("\n".join([*lines, "# EOF", ""]))
    assert main(["learn", str(tmp_path / "own.om"), "--output", str(tmp_path / "fleet.yaml")]) == 0
    (identity,) = load(str(tmp_path / "fleet.yaml"), Files(environ={})).identities.values()
    families = {family.name: family for family in identity.families}
    speeds, parts = (families[name].rows[0].random for name in ("own_speed", "own_parts_total"))
    assert "secret" not in "".join(path.read_text() for path in tmp_path.glob("*.yaml"))
    assert (families["own_speed"].kind, families["own_speed"].help) == ("gauge", "how fast")
    assert families["own_parts_total"].kind == "counter"
    assert speeds is not None
    assert (speeds.quantiles[0], speeds.quantiles[-1]) == (20, 32)
    assert parts is not None
    assert parts.quantiles == pytest.approx((5 / 60,), rel=0.01)


@pytest.mark.slow
def test_boards_that_are_told_by_their_uuids(tmp_path: Path) -> None:
    """Series without the index of a board are of the board that has this UUID in the learnt fleet."""
    boards = [f"2be0d2f{number}-1f4b-4d0e-9d37-3f2f1c6ca9a1" for number in range(3)]
    lines = [
        f"nvidia_smi_{name}{{uuid=\"{uuid}\"{more}}} {value} {60 * minute}"
        for name, more, values in (
            ("gpu_info", ',name="NVIDIA L40S"', (1, 1, 1)), ("index", "", (0, 1, 2)),
            ("utilization_gpu_ratio", "", (0.9, 0, 0.3)), ("power_draw_watts", "", (300, 35, 140)),
        )
        for uuid, value in zip(boards, values, strict=True) for minute in range(30)
    ]  # fmt: skip
    (tmp_path / "own.om").write_text("\n".join([*lines, "# EOF", ""]))
    assert main(["learn", str(tmp_path / "own.om"), "--output", str(tmp_path / "fleet.yaml")]) == 0
    base = yaml.safe_load((tmp_path / "fleet.yaml").read_text())["workloads"]["base"]
    levels = {work["devices"].partition("/")[2]: work["profile"].partition(":")[0] for work in base}
    assert levels == {"0": "90", "1": "0", "2": "30"}


@pytest.mark.slow
def test_folders_of_pages(tmp_path: Path) -> None:
    """A folder for each exporter, whose names are the nodes; a page is of the time of its file, in any order of names.
    """
    for node in ("secret-a", "secret-b"):
        (tmp_path / "pages" / node).mkdir(parents=True)
        for minute in range(30):
            path = tmp_path / "pages" / node / f"{97 * minute % 31}.prom"
            path.write_text(f"# TYPE own_parts counter\nown_parts_total {5 * minute}\n")
            os.utime(path, (1_800_000_000 + 120 * minute,) * 2)
    output = tmp_path / "fleet.yaml"
    assert main(["learn", str(tmp_path / "pages"), "--output", str(output)]) == 0
    configuration = load(str(output), Files(environ={}))
    assert [node.name for pool in configuration.fleet.pools for node in pool.nodes] == ["page-1", "page-2"]
    (identity,) = configuration.identities.values()
    (row,) = identity.families[0].rows
    assert row.random is not None
    assert row.random.quantiles == pytest.approx((5 / 120, 5 / 120), rel=0.01)
    assert "secret" not in output.read_text()


@pytest.mark.parametrize(("options", "text"), [
    ([], "give either files or --prometheus URL"),
    (["--prometheus", "http://127.0.0.1:1"], "--match: say which series"),
    (["{empty}"], "there is no sample in it"),
    (["{page}"], "fakedev clone"),
    (["{absent}"], "absent.om: no such file or folder"),
    (["{page}", "--keep", "pod,a-b"], "--keep: 'a-b' is no label, as namespace or pod"),
    (["{page}", "--output", "{page}"], "is there: name another file with --output"),
    (["{page}", "--step", "soon"], "--step"),
    (["{bare}"], "bare: there is no file in this folder"),
    (["{mixed}"], "mixed.prom:2: some samples have a time"),
    (["{absent}", "--identity", "dcmg"], "--identity: no identity 'dcmg'"),
    (["{absent}", "--device", "h1000"], "--device: no device type 'h1000'"),
    (["{page}", "--trace", "{folder}"], "has files already: name another folder with --trace"),
    (["{absent}", "--to", "noon"], "--to is for a Prometheus: files are read whole"),
    (["--prometheus", "http://127.0.0.1:1", "--to", "noon"], "--to: 'noon' is no time"),
    (["--prometheus", "http://127.0.0.1:1", "--match", "up"], "is not in braces"),
    (["--prometheus", "http://127.0.0.1:1", "--match", "{{}}", "--resume", "{folder}"], "has other files"),
    (["{page}", "--step", "0s"], "--step: at least 1s"),
    (["{cut}"], "cut.prom:2: the file ends within a line: is it whole?"),
    (["{page}", "--output", "{absent}/x.yaml"], "absent.om: there is no such folder"),
])  # fmt: skip
def test_mistakes(options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is told in a sentence, and nothing is written."""
    files = {"empty": "# EOF\n", "page": "# TYPE a gauge\na 1\n", "cut": "a 1 1\na{b=", "mixed": "a 1 1\na 1\n"}
    paths = {"absent": str(tmp_path / "absent.om"), "folder": str(tmp_path), "bare": str(tmp_path / "bare")}
    (tmp_path / "bare").mkdir()
    for name, content in files.items():
        path = tmp_path / f"{name}.{'om' if name == 'empty' else 'prom'}"
        path.write_text(content)
        paths[name] = str(path)
    words = [option.format(**paths) for option in options]
    if "--output" not in words:
        words += ["--output", str(tmp_path / "fleet.yaml")]
    try:
        code = main(["learn", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code in (1, 2)
    assert text in capsys.readouterr().err
    assert not (tmp_path / "fleet.yaml").exists()
