"""Counters files of users: the rows of dcgm-exporter's own format become families and labels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakedev.config.sample_page import sample_page
from fakedev.exporters.identity import Identity
from fakedev.exporters.settings.catalog import Catalog
from fakedev.exporters.settings.counters import FieldTable
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError, Place, Report
from tests.support import configurations
from tests.support.identities import loaded

IDENTITY = """
name: mine
based-on: {base}
counters: mine.csv
"""
COUNTERS = """\
# Format
dcgm_gpu_temp,    gauge, GPU temperature (in C).
DCGM_FI_DEV_SERIAL, label,
# comment

DCGM_FI_DEV_POWER_USAGE,gauge,"Power draw (in W), averaged."
DCGM_FI_PROF_NVLINK_TX_BYTES, counter,"Sent, headers included."
"""


def made(
    folder: Path, counters: str = COUNTERS, base: str = "dcgm@4.8.2", more: str = "", identity: str = ""
) -> tuple[Identity, Report]:
    """The identity of a file with counters beside it."""
    (folder / "mine.csv").write_text(counters, newline="")
    (folder / "mine.yaml").write_text(identity or IDENTITY.format(base=base) + more)
    report = Report()
    found = Catalog(Files(environ={}), report, str(folder)).identity("./mine.yaml", Place("test"))
    report.raise_if_any()
    assert found is not None
    return found.identity, report


def problems(folder: Path, counters: str, more: str = "") -> list[str]:
    with pytest.raises(ConfigurationError) as error:
        made(folder, counters, more=more)
    return str(error.value).splitlines()


def test_help_is_any_text(tmp_path: Path) -> None:
    """It may be empty, long, of several lines, and have quotes and separators that only Python takes for line ends."""
    rows = (
        "DCGM_FI_DEV_GPU_TEMP,gauge,\r\n"
        'DCGM_FI_DEV_GPU_UTIL, gauge,"a ""b"", c\nd"\n'
        f"DCGM_FI_DEV_FB_USED, gauge, {'x' * 140_000}\n"
        "DCGM_FI_DEV_FB_FREE, gauge, a\x0bb\u2028c\r"
    )
    identity, _ = made(tmp_path, rows)
    assert {family.name.removeprefix("DCGM_FI_DEV_"): family.help for family in identity.families} == {
        "GPU_TEMP": "",
        "GPU_UTIL": 'a "b", c\nd',
        "FB_USED": "x" * 140_000,
        "FB_FREE": "a\x0bb\u2028c",
    }


TEMP = "DCGM_FI_DEV_GPU_TEMP, gauge,"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (f'{TEMP} "a, b"', 1, 'parse error on line 1, column 30: bare " in non-quoted field'),
        (f'{TEMP} é "a"', 1, 'parse error on line 1, column 33: bare " in non-quoted field'),
        (f'{TEMP}"a" b', 1, 'parse error on line 1, column 31: extraneous or missing " in quoted-field'),
        (f'{TEMP}"a\nb"c"', 1, "record on line 1; parse error on line 2, column 2: extraneous or missing"),
        (f'{TEMP}"a', 1, 'parse error on line 1, column 31: extraneous or missing " in quoted-field'),
        (f'{TEMP}"a\r\n', 1, 'parse error on line 1, column 32: extraneous or missing " in quoted-field'),
        (f"{TEMP} a\n# b\n{TEMP} a, b", 3, "record on line 3: wrong number of fields"),
        (f"{TEMP} a\n # b", 2, "record on line 2: wrong number of fields"),
        (f"{TEMP} a\n \n", 2, "record on line 2: wrong number of fields"),
        (f"{TEMP} a,", 1, "failed to parse line 0, expected 3 fields"),
    ],
)  # fmt: skip
def test_what_encoding_csv_cannot_read(tmp_path: Path, text: str, line: int, says: str) -> None:
    """The exporter does not start with such a file: an error says the same of the same line."""
    [problem] = problems(tmp_path, text)
    assert problem.startswith(f"mine.csv:{line}: ")
    assert says in problem
    skipping = "name: mine\nbased-on: dcgm\ncounters: {unknown: skip, file: mine.csv}\n"
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        made(tmp_path, text, identity=skipping)


def test_bad_rows_are_reported_at_once(tmp_path: Path) -> None:
    """The exporter stops at the first; rows after an error are read."""
    found = problems(tmp_path, f'{TEMP} "a"\nDCGM_FI_DEV_X, gauge, b\n{TEMP}"c\n{TEMP} d, e\n')
    assert [each.partition(": ")[0] for each in found] == [f"mine.csv:{line}" for line in (1, 2, 3, 4)]


def test_families_and_labels(tmp_path: Path) -> None:
    """Names, types and texts are the file's, the order is the fields', labels are where the base has its own."""
    identity, _ = made(tmp_path)
    assert [(family.name, family.kind, family.help) for family in identity.families] == [
        ("dcgm_gpu_temp", "gauge", "GPU temperature (in C)."),
        ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W), averaged."),
        ("DCGM_FI_PROF_NVLINK_TX_BYTES", "counter", "Sent, headers included."),
    ]
    names = [label.name for label in identity.labels]
    assert names[7:11] == ["Hostname", "DCGM_FI_DEV_SERIAL", "hpc_job", "container"]
    assert identity.leading_labels == 9


def test_the_base_says_how(tmp_path: Path) -> None:
    """Order and numbers are those of the version that it is based on."""
    identity, _ = made(tmp_path, base="dcgm@4.8.3")
    assert [family.name for family in identity.families][-1] == "dcgm_gpu_temp"
    assert {family.number.value for family in identity.families} == {"go-whole", "go-fixed6"}


def test_without_and_also(tmp_path: Path) -> None:
    """Families can be left out of a file's, and put beside them."""
    more = "without: [dcgm_gpu_temp]\nalso: [{name: x, type: gauge, help: X., constant: 1, format: int}]\n"
    identity, _ = made(tmp_path, more=more)
    names = [family.name for family in identity.families]
    assert names == ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_NVLINK_TX_BYTES", "x"]
    assert problems(tmp_path, COUNTERS, "without: [dcgm_gpu_tmp]\n")[0].endswith(
        "without: there is no family 'dcgm_gpu_tmp'; did you mean 'dcgm_gpu_temp'?"
    )


def test_help_texts(tmp_path: Path) -> None:
    """Families can have another text, which may be empty; a family that is not there is named."""
    identity, _ = made(tmp_path, more='help-texts: {dcgm_gpu_temp: ""}\n')
    assert [family.help for family in identity.families if family.name == "dcgm_gpu_temp"] == [""]
    (problem,) = problems(tmp_path, COUNTERS, "help-texts: {dcgm_gpu_tmp: X.}\n")
    assert "help-texts" in problem
    assert "'dcgm_gpu_temp'" in problem


def test_a_row_twice_is_noted(tmp_path: Path) -> None:
    """As in the 1.x file of the exporter itself."""
    identity, report = made(tmp_path, COUNTERS + "dcgm_gpu_temp, gauge, Again.\n")
    assert identity.families[0].help == "GPU temperature (in C)."
    assert [note for note in report.notes if "dcgm_gpu_temp is on line 2 already" in note]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("DCGM_FI_DEV_GPU_TEMPS, gauge, x", "no field 'DCGM_FI_DEV_GPU_TEMPS'; did you mean 'DCGM_FI_DEV_GPU_TEMP'?"),
        ("DCGM_FI_DEV_BAR1_USED, gauge, x", "the simulated state has nothing that this field shows"),
        ("DCGM_FI_DEV_BAR1_TOTAL, gauge, x", "the simulated state has nothing that this field shows"),
        (
            "DCGM_FI_DEV_GPU_TEMP, Gauge, x",
            "the type 'Gauge' is none of gauge, counter, histogram, summary, label; did you mean 'gauge'? "
            "(dcgm-exporter: could not find Prometheus metric type 'Gauge')",
        ),
        ("DCGM_FI_DEV_GPU_TEMP, untyped, x", "could not find Prometheus metric type 'untyped'"),
        ("DCGM_EXP_XID_ERRORS_COUNT, gage, x", "(dcgm-exporter prints it, and Prometheus refuses the page)"),
        ("\tDCGM_FI_DEV_GPU_TEMP, gauge, x", r"no field '\tDCGM_FI_DEV_GPU_TEMP'; did you mean"),
        ("DCGM_FI_DEV_GPU_TEMP, gauge\t, x", r"the type 'gauge\t' is none of"),
        ("  # indented, a, b", "could not find DCGM field; err: unknown ExporterCounter field '# indented')"),
        ("DCGM_FI_DEV_GPU_TEMP, label, x", "can only be a gauge or a counter, not label"),
        ("DCGM_FI_DRIVER_VERSION, gauge, x", "can only be a label, not gauge"),
        ("DCGM_FI_DEV_GPU_TEMP, gauge", "has 2 fields: a help text may be empty, but needs its comma"),
        ("just words", "has 1 field:"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, reason: str) -> None:
    [problem] = problems(tmp_path, f"{COUNTERS}\n{row}\n")
    assert problem.startswith("mine.csv:9: ")
    assert reason in problem


@pytest.mark.parametrize("kind", ["histogram", "summary"])
@pytest.mark.parametrize("field", ["DCGM_FI_DEV_GPU_TEMP", "DCGM_EXP_CLOCK_EVENTS_COUNT"])
def test_types_of_other_series(tmp_path: Path, kind: str, field: str) -> None:
    """As dcgm-exporter's templates print them: the word is in the TYPE line, and the rows are those of a gauge."""

    def page(word: str) -> list[str]:
        (tmp_path / "mine.csv").write_text(f"{field}, {word}, Some help.\n")
        (tmp_path / "mine.yaml").write_text("name: mine\nbased-on: dcgm@4.8.2\ncounters: mine.csv\n")
        return sample_page(str(tmp_path / "mine.yaml"), "h100")[1].splitlines()

    usual, shown = page("gauge"), page(kind)
    assert shown[1] == f"# TYPE {field} {kind}"
    assert [shown[0], *shown[2:]] == [usual[0], *usual[2:]] and len(shown) > 2
    read = text_string_to_metric_families("\n".join(shown) + "\n")
    assert sum(len(each.samples) for each in read) == len(shown) - 2


def test_no_counter_at_all(tmp_path: Path) -> None:
    assert problems(tmp_path, "# nothing\n") == ["mine.csv:1: the counters have no gauge and no counter"]


def test_every_field_can_be_shown() -> None:
    """Each field of the table, named in a file, makes an identity that the catalog's boards can fill or lack."""
    report = Report()
    table = Catalog(Files(environ={}), report).field_table("dcgm", Place("test"))
    assert isinstance(table, FieldTable)
    assert not report.sorted_problems()
    assert len(table.fields) > 60
    assert not set(table.fields) & table.others
    numbers = [row["number"] for name, row in table.fields.items() if name != row["alias"]]
    assert len(numbers) == len(set(numbers))


def test_versions_differ_as_they_should() -> None:
    """The host's label, the bus id, and the labels of free boards."""
    by_version = {version: loaded(f"dcgm@{version}") for version in ("3.0", "4.8.2", "4.8.3")}
    names = {version: [label.name for label in each.labels] for version, each in by_version.items()}
    assert ["hostname" in name for name in names.values()] == [False, False, True]
    assert ["pci_bus_id" in name for name in names.values()] == [False, True, True]
    assert [label.name for label in by_version["3.0"].labels if label.optional] == ["GPU_I_PROFILE", "GPU_I_ID"]


def test_paths_begin_at_the_file_that_names_them(tmp_path: Path) -> None:
    """For every place of the configuration: counters beside the identity, and what it is based on."""
    (tmp_path / "sub" / "deeper").mkdir(parents=True)
    (tmp_path / "sub" / "deeper" / "mine.yaml").write_text("name: mine\nbased-on: ../base.yaml\ncounters: mine.csv\n")
    (tmp_path / "sub" / "deeper" / "mine.csv").write_text("DCGM_FI_DEV_GPU_TEMP, gauge, Mine.\n")
    (tmp_path / "sub" / "base.yaml").write_text("name: base\nbased-on: ./other\ncounters: base.csv\nhold: 7s\n")
    (tmp_path / "sub" / "base.csv").write_text("DCGM_FI_DEV_FB_USED, gauge, Base.\n")
    (tmp_path / "sub" / "other").write_text("name: other\nbased-on: dcgm@3.0\n")
    report = Report()
    catalog = Catalog(Files(environ={}), report, str(tmp_path), "conf")
    found = catalog.identity("sub/deeper/mine.yaml", Place("test"))
    report.raise_if_any()
    assert found is not None
    assert [family.help for family in found.identity.families] == ["Mine."]
    assert (found.identity.hold_seconds, found.identity.labels[-1].name) == (7.0, "pod")
    again = catalog.identity("./sub/deeper/../deeper/mine.yaml", Place("test"))
    assert again is found
    (tmp_path / "sub" / "base.csv").unlink()
    missing = Report()
    Catalog(Files(environ={}), missing, str(tmp_path), "conf").identity("sub/deeper/mine.yaml", Place("test"))
    assert [str(problem) for problem in missing.sorted_problems()] == [
        "conf/sub/base.yaml:3: the counters file conf/sub/base.csv: no such file"
    ]


def test_based_on_itself_by_a_longer_way(tmp_path: Path) -> None:
    """A circle of files is an error, and is not followed."""
    (tmp_path / "a.yaml").write_text("name: a\nbased-on: sub/b.yaml\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.yaml").write_text("name: b\nbased-on: ../a.yaml\n")
    report = Report()
    Catalog(Files(environ={}), report, str(tmp_path)).identity("a.yaml", Place("test"))
    assert "is based on itself" in str(report.sorted_problems()[0])


SKIPPING = """\
name: own
based-on: dcgm
counters:
  unknown: skip
  file: |
    DCGM_FI_DEV_GPU_TEMP, gauge, T.
    DCGM_FI_DEV_BAR1_USED, gauge, B.
    ZZZ_NEWER_THAN_ALL, gauge, N.
    DCGM_FI_DEV_OEM_INFOROM_VER, label, I.
"""


def test_rows_that_are_left_out() -> None:
    """What is not simulated, and what nobody knows, each with a note; a label on devices without its fact."""
    configuration = configurations.loaded(configurations.pool(device="t4", identity="own.yaml"), {"own.yaml": SKIPPING})
    identity = configuration.identities["a"]
    assert [family.name for family in identity.families] == ["DCGM_FI_DEV_GPU_TEMP"]
    assert [note for note in configuration.notes if ": left out: " in note] == [
        "/conf/own.yaml:7: left out: DCGM_FI_DEV_BAR1_USED: the simulated state has nothing that this field shows",
        "/conf/own.yaml:8: left out: ZZZ_NEWER_THAN_ALL: no field 'ZZZ_NEWER_THAN_ALL'",
    ]
    assert next(label for label in identity.labels if "INFOROM" in label.name).optional


def test_all_rows_that_cannot_be_shown_at_once() -> None:
    """Without skip they are errors, each with its line; a wrong type is one also with it."""
    text = configurations.pool(identity="own.yaml")
    said = configurations.problems(text, {"own.yaml": SKIPPING.replace("skip", "error")})
    assert [line.partition(": ")[0] for line in said] == ["own.yaml:7", "own.yaml:8"]
    wrong = SKIPPING.replace("GPU_TEMP, gauge", "GPU_TEMP, gouge")
    assert [line for line in configurations.problems(text, {"own.yaml": wrong}) if "the type 'gouge'" in line]


#: Rows that the guides of cloud vendors have, beside those of the exporter's own files.
OF_VENDORS = (
    "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE", "DCGM_FI_PROF_PIPE_FP16_ACTIVE", "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
    "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "DCGM_FI_DEV_LOW_UTIL_VIOLATION", "DCGM_FI_DEV_RELIABILITY_VIOLATION",
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_COUNT", "DCGM_FI_DEV_MEM_MAX_OP_TEMP",
)  # fmt: skip


@pytest.mark.parametrize("device", ["h100", "t4"])
def test_counters_of_cloud_vendors(device: str) -> None:
    """All load, on boards with and without NVLink and a sensor of the memory; facts are labels."""
    rows = [f"{name}, gauge, X." for name in OF_VENDORS]
    rows += [f"{name}, label, X." for name in ("DCGM_FI_DEV_BRAND", "DCGM_FI_NVML_VERSION", "DCGM_FI_DEV_ECC_CURRENT")]
    own = "name: own\nbased-on: dcgm\ncounters: |\n" + "".join(f"  {row}\n" for row in rows)
    configuration = configurations.loaded(configurations.pool(device=device, identity="own.yaml"), {"own.yaml": own})
    labels = {label.name: label.value for label in configuration.identities["a"].labels}
    assert len(configuration.identities["a"].families) == len(OF_VENDORS)
    assert labels["DCGM_FI_DEV_ECC_CURRENT"] == "{ecc_mode}"
    assert {"DCGM_FI_DEV_BRAND", "DCGM_FI_NVML_VERSION"} <= labels.keys()
