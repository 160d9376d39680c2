"""The built-in identities against reference texts of the exporters that they imitate.

The texts are not part of the project: they are in a folder beside it on the developers' machines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.identities import loaded, written
from tests.support.paths import ROOT

GOLDEN = ROOT.parent / "shared" / "facts" / "golden"

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the reference texts are not at hand ({GOLDEN})")

SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\} (\S+)(?: (\d+))?')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
NUMBERS = {
    "int": re.compile(r"-?\d+"),
    "fixed6": re.compile(r"-?\d+\.\d{6}"),
    "python": re.compile(r"-?\d+\.\d+(e[+-]\d\d)?|-?\de[+-]\d\d"),
}


@dataclass
class Sample:
    """One line of a page."""

    labels: list[tuple[str, str]]
    number: str
    timestamp: str

    @property
    def label_names(self) -> list[str]:
        """The names of its labels, in their order."""
        return [name for name, _ in self.labels]


@dataclass
class Family:
    """What a page says of one family."""

    name: str
    kind: str = ""
    help: str = ""
    samples: list[Sample] = field(default_factory=list)


def parse_page(path: Path) -> dict[str, Family]:
    """The families of a page in the order in which they are declared."""
    families: dict[str, Family] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(("# HELP ", "# TYPE ")):
            _, word, name, text = line.split(" ", 3)
            family = families.setdefault(name, Family(name))
            setattr(family, "help" if word == "HELP" else "kind", text)
        elif line:
            match = SAMPLE.fullmatch(line)
            assert match, line
            families[match[1]].samples.append(Sample(LABEL.findall(match[2]), match[3], match[4] or ""))
    return families


def declared(identity: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, type and help of an identity's families."""
    return [(family["name"], family["type"], family["help"]) for family in identity["families"]]


def left_out(identity: dict[str, Any], prefix: str) -> set[str]:
    """The families that ``not-covered`` names: words before the colon, with the exporter's prefix."""
    heads = [text.partition(": ")[0].split(", ") for text in identity["not-covered"]]
    return {name for head in heads for name in head if re.fullmatch(rf"{prefix}\w+", name)}


def is_subsequence(part: Sequence[object], whole: Iterable[object]) -> bool:
    """Whether ``part`` is ``whole`` with some left out."""
    rest = iter(whole)
    return all(item in rest for item in part)


#: Labels only of instances of a divided GPU.
OF_INSTANCES = ("GPU_I_PROFILE", "GPU_I_ID")
#: Labels only of devices of resource claims, and of jobs of a cluster without Kubernetes.
NOT_OF_PODS = re.compile("vgpu|dra_|hpc_job")


def row_labels(identity: dict[str, Any], row: dict[str, Any], with_pod: bool) -> list[str]:
    """Label names of a row of a whole device in the order in which the identity prints them."""
    labels = [label for label in identity["labels"] if not NOT_OF_PODS.match(label["name"])]
    written = [label for label in labels if label["name"] not in OF_INSTANCES]
    names = [label["name"] for label in written if with_pod or not label.get("optional")]
    names += [label["name"] for label in row.get("labels", [])]
    if identity["sort-labels"]:
        leading = identity["leading-labels"] - (len(labels) - len(written))
        names = names[:leading] + sorted(names[leading:])
    return names


def rows_of(family: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a family; the short form is one row."""
    return list(family["rows"]) if "rows" in family else [family]


class TestDcgm:
    """dcgm@4.8.2."""

    identity = written("dcgm@4.8.2")

    def page(self) -> dict[str, Family]:
        """Two H100s: the second has a pod."""
        return parse_page(GOLDEN / "dcgm-exporter-4.8.2.DERIVED-default-2xH100.prom")

    def counters(self) -> list[tuple[str, str, str]]:
        """Name, type and help of the exporter's own list."""
        text = (GOLDEN / "dcgm-exporter-4.8.2.default-counters.csv").read_text(encoding="utf-8")
        rows = csv.reader(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
        return [(name.strip(), kind.strip(), ",".join(rest).strip()) for name, kind, *rest in rows]

    def test_families_are_the_page_in_its_order(self) -> None:
        """Names, TYPE and HELP are the page's, and in the page's order."""
        page = [(family.name, family.kind, family.help) for family in self.page().values()]
        assert is_subsequence(declared(self.identity), page)

    def test_families_are_the_counters(self) -> None:
        """They are also those of the exporter's own list; exactly the missing ones are named."""
        counters = [row for row in self.counters() if row[1] != "label"]
        assert set(declared(self.identity)) <= set(counters)
        missing = {name for name, _, _ in counters} - {name for name, _, _ in declared(self.identity)}
        assert missing == left_out(self.identity, "DCGM_FI_") == set()

    def test_order_is_by_field_number(self) -> None:
        """The exporter prints families by the number of their DCGM field."""
        text = (GOLDEN / "dcgm-fields-4.5.3.csv").read_text(encoding="utf-8")
        numbers = {row["field_name"]: int(row["field_id"]) for row in csv.DictReader(text.splitlines())}
        ours = [numbers[name] for name, _, _ in declared(self.identity)]
        assert ours == sorted(ours)

    def test_labels(self) -> None:
        """Every line has our labels in our order, with a pod and without."""
        page = self.page()
        for family in self.identity["families"]:
            free, busy = page[family["name"]].samples
            assert free.label_names == row_labels(self.identity, family["rows"][0], with_pod=False)
            assert busy.label_names == row_labels(self.identity, family["rows"][0], with_pod=True)

    def test_texts_of_xids(self) -> None:
        """Each code has the exporter's text, and there is no other."""
        text = (GOLDEN.parent / "xid-texts.csv").read_text(encoding="utf-8")
        rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
        (family,) = (family for family in loaded("dcgm@4.8.2").families if family.name == "DCGM_FI_DEV_XID_ERRORS")
        message = next(label for label in family.rows[0].labels if label.name == "err_msg")
        assert dict(message.texts) == {row["xid"]: row["err_msg"] for row in rows}
        assert message.otherwise == "Unknown Error"

    def test_counters_of_type_label(self) -> None:
        """What the list has as labels is a label of every row."""
        wanted = {name for name, kind, _ in self.counters() if kind == "label"}
        assert wanted
        assert wanted <= {label["name"] for label in self.identity["labels"]}

    def test_numbers(self) -> None:
        """Whole numbers where DCGM's field is INT64, six decimals where it is DOUBLE; so does the page."""
        text = (GOLDEN / "dcgm-fields-4.5.3.csv").read_text(encoding="utf-8")
        types = {row["field_name"]: row["value_type"] for row in csv.DictReader(text.splitlines())}
        page = self.page()
        for family in self.identity["families"]:
            assert family["format"] == {"INT64": "int", "DOUBLE": "fixed6"}[types[family["name"]]]
            for sample in page[family["name"]].samples:
                assert NUMBERS[family["format"]].fullmatch(sample.number), family["name"]

    def test_real_scrapes_of_an_older_version(self) -> None:
        """Real lines of version 3.0 have the same TYPE, number formats and, of the labels it had, the order."""
        older = parse_page(GOLDEN / "dcgm-exporter-3.0-a100-idle-mig-disabled.0.prom")
        shared = [family for family in self.identity["families"] if family["name"] in older]
        assert len(shared) > 15
        for family in shared:
            theirs = older[family["name"]]
            assert theirs.kind == family["type"]
            for sample in theirs.samples:
                assert NUMBERS[family["format"]].fullmatch(sample.number), family["name"]
                assert is_subsequence(sample.label_names, row_labels(self.identity, family["rows"][0], with_pod=True))


class TestXpumanager:
    """xpumanager@1.3."""

    identity = written("xpumanager@1.3")

    def page(self) -> dict[str, Family]:
        """One board with two tiles and a pod."""
        return parse_page(GOLDEN / "intel-xpumanager-1.3.DERIVED.prom")

    def families(self) -> list[dict[str, str]]:
        """The exporter's table of families."""
        text = (GOLDEN / "intel-xpumanager-1.3.families.csv").read_text(encoding="utf-8")
        return list(csv.DictReader(text.splitlines()))

    def test_families(self) -> None:
        """Names, TYPE and HELP are the table's, the order is the page's; exactly the missing ones are named."""
        table = [(row["exposed_name"], row["type"], row["help"]) for row in self.families()]
        ours = [row for row in declared(self.identity) if not row[0].endswith("_created")]
        assert set(ours) <= set(table)
        assert {name for name, _, _ in table} - {name for name, _, _ in ours} == left_out(self.identity, "xpum_")
        page = list(self.page())
        assert [family["name"] for family in self.identity["families"] if family["name"] in page] == page

    def test_created(self) -> None:
        """Each counter is followed by the gauge of its creation, with the same help and rows; no gauge is."""
        families = self.identity["families"]
        for family, following in zip(families, [*families[1:], None], strict=True):
            name = family["name"].removesuffix("_total") + "_created"
            if family["type"] == "counter":
                assert following is not None
                assert (following["name"], following["type"]) == (name, "gauge")
                assert following["help"] == family["help"]
                theirs = [row.get("labels", []) for row in rows_of(following)]
                assert theirs == [row.get("labels", []) for row in rows_of(family)]
                assert all(row["quantity"] == "created_seconds" for row in rows_of(following))
            elif not family["name"].endswith("_created"):
                assert following is None or following["name"] != name

    def test_extra_labels(self) -> None:
        """A family's rows have the extra labels that the table names, the source, and those of tiles their number."""
        extra = {row["exposed_name"]: row["extra_labels"].split() for row in self.families()}
        for family in self.identity["families"]:
            name = family["name"].replace("_created", "_total")
            for row in rows_of(family):
                of_tiles = ["sub_dev"] * (row.get("level") == "tile")
                assert [label["name"] for label in row["labels"]] == [*extra[name], "src", *of_tiles], name

    def test_page(self) -> None:
        """TYPE, HELP, label names in order and numbers are the page's."""
        page = self.page()
        shared = [family for family in self.identity["families"] if family["name"] in page]
        assert len(shared) > 15
        for family in shared:
            theirs = page[family["name"]]
            assert (theirs.kind, theirs.help) == (family["type"], family["help"])
            ours = [row_labels(self.identity, row, with_pod=True) for row in rows_of(family)]
            for sample in theirs.samples:
                assert list(sample.label_names) in ours
                assert NUMBERS[family["format"]].fullmatch(sample.number), sample.number

    def test_label_values(self) -> None:
        """The fixed label values of our rows occur on the page, except of what the page leaves out."""
        page = self.page()
        seen = {pair for family in page.values() for sample in family.samples for pair in sample.labels}
        ours = {
            (label["name"], label["value"])
            for family in self.identity["families"]
            for row in rows_of(family)
            for label in row.get("labels", [])
            if "{" not in label["value"]
        }
        assert ours - seen == {("location", "mem"), ("type", "copy"), ("type", "render")}

    def test_layout(self) -> None:
        """All declarations come first, then the lines sorted as text, as this identity says."""
        lines = (GOLDEN / "intel-xpumanager-1.3.DERIVED.prom").read_text(encoding="utf-8").splitlines()
        samples = [line for line in lines if not line.startswith("#")]
        assert all(line.startswith("#") for line in lines[: -len(samples)])
        assert samples == sorted(samples)
        assert self.identity["layout"] == "declarations-first"


class TestCollectd:
    """collectd@6."""

    identity = written("collectd@6")

    def page(self) -> dict[str, Family]:
        """Two families of one DG1."""
        return parse_page(GOLDEN / "collectd-gpu-sysman.DERIVED.prom")

    def test_page(self) -> None:
        """All families of the page are ours, with its TYPE, HELP, labels in order and timestamps."""
        ours = {family["name"]: family for family in self.identity["families"]}
        page = self.page()
        assert page
        for name, theirs in page.items():
            family = ours[name]
            assert (family["type"], family["help"]) == (theirs.kind, theirs.help)
            for sample in theirs.samples:
                assert sample.label_names == row_labels(self.identity, rows_of(family)[0], with_pod=True)
                assert bool(sample.timestamp) == self.identity["timestamps"]
                assert len(sample.timestamp) == len("1700000000000")

    def test_order(self) -> None:
        """Families are in the order of their names, as the plugin's tree has them; the page is too short to tell."""
        names = [name for name, _, _ in declared(self.identity)]
        assert names == sorted(names)

    def test_names(self) -> None:
        """All names have the plugin's prefix, and counters end as such."""
        for name, kind, _ in declared(self.identity):
            assert name.startswith("collectd_gpu_sysman_")
            assert name.endswith("_total") == (kind == "counter")

    def test_left_out(self) -> None:
        """Omissions are named, and none of them is shown."""
        missing = left_out(self.identity, "collectd_gpu_sysman_")
        assert missing
        assert not missing & {name for name, _, _ in declared(self.identity)}


#: Endings of Prometheus' names by the units of OpenTelemetry.
ENDINGS = {
    "J": "_joules", "Hz": "_hertz", "By": "_bytes", "By/s": "_bytes_per_second", "W": "_watts", "Cel": "_celsius",
}  # fmt: skip


class TestXpumd:
    """xpumd@2."""

    identity = written("xpumd@2")
    def metrics(self) -> dict[str, set[str]]:
        """The labels of each metric of the daemon, by its name in Prometheus, without ``_total``."""
        text = (GOLDEN / "intel-xpumd.metrics.csv").read_text(encoding="utf-8")
        found = {}
        for row in csv.DictReader(line for line in text.splitlines() if not line.startswith(('#', '"#'))):
            ending = ENDINGS.get(row["unit"], "_ratio" if (row["unit"], row["type"]) == ("1", "Gauge") else "")
            labels = {part.partition("=")[0].strip().replace(".", "_") for part in row["attributes"].split(";")}
            found[row["name"].replace(".", "_") + ending] = labels
        return found

    def test_families_and_labels(self) -> None:
        """Each family is a metric of the daemon with its attributes; those that are missing are named."""
        metrics = self.metrics()
        ours = {family["name"].removesuffix("_total"): family for family in self.identity["families"]}
        assert set(ours) <= set(metrics)
        assert set(metrics) - set(ours) == left_out(self.identity, "hw_") & set(metrics)
        for name, family in ours.items():
            for row in rows_of(family):
                labels = set(row_labels(self.identity, row, with_pod=True))
                assert labels <= metrics[name], name
                assert metrics[name] - labels <= {"hw_memory_demand_paging"}, name

    def test_words(self) -> None:
        """Enumerations are in lower case, as the daemon writes them."""
        values = {
            (label["name"], label["value"])
            for family in self.identity["families"]
            for row in rows_of(family)
            for label in row["labels"]
            if "{" not in label["value"]
        }
        assert all(value == value.lower() for _, value in values)
        categories = {value for name, value in values if name == "error_category"}
        assert categories == {
            "reset", "programming_errors", "driver_errors", "cache_errors", "non_compute_errors", "memory_errors"
        }
        reasons = {value for name, value in values if name == "com_intel_speed_throttle_reason"}
        assert reasons == {"ave_pwr_cap", "thermal_limit", "psu_alert"}
        assert {value for name, value in values if name == "statistic"} == {"min", "max"}
