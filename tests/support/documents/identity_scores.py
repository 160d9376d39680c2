"""How faithful the built-in identities are to the reference texts, with each difference explained.

Run as a script it writes the section of doc/identities.md again. The texts are not part of the project: they are in a
folder beside it on the developers' machines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from fakedev.clone.recognition import recognized_facts
from fakedev.config.sample_page import sample_page
from fakedev.exporters.conform import Conformity, Difference, compared
from fakedev.exporters.samples import read_page
from tests.support.documents.sections import with_section
from tests.support.paths import GOLDEN, ROOT

DOCUMENT: Final = ROOT / "doc" / "identities.md"
_HEAD: Final = "## How faithful they are\n"
_NOT_CERTAIN: Final = (
    "Not certain: dcgm 4.8.2 and 4.8.4 (no scrape was available) and all of 4.9.0; the order of xpumanager's families; "
    "versions of collectd in between; which clock index and which zeros AMD's chips have; values of gaudi, ascend and "
    "neuron; numbers in `hw_name` of xpumd; HELP of tpu's `memory_used_node`."
)

#: The derived texts have a row of XID 0 for healthy boards, as this driver has.
_DRIVER_WITH_XID_0: Final = "580.95.05"
_SMI: Final = (
    ("platform_module_id", "family", "which number each module of a server has is not known"),
    ("last_collect_(duration|success_timestamp)", "family", "the text leaves out what differs from run to run"),
)
_XID_79: Final[dict[str, object]] = {"kind": "xid", "code": 79, "devices": "*/*", "start": "1m"}


@dataclass(frozen=True)
class Case:
    """An identity on a device, against a text.

    :param text: what the text is, in words.
    :param instances: the profiles that each board is divided into.
    :param driver: the version of the boards' driver; else that of the text.
    :param is_idle: the page has idle boards only.
    :param families: the families of the text that are compared; empty for all.
    :param explained: family (a pattern), aspect (a pattern), and why it differs.
    """

    identity: str
    device: str
    file: str
    text: str
    explained: tuple[tuple[str, str, str], ...] = ()
    is_fragment: bool = False
    instances: tuple[str, ...] = ()
    faults: tuple[dict[str, object], ...] = ()
    driver: str = ""
    is_idle: bool = False
    families: tuple[str, ...] = ()

    def result(self) -> Conformity:
        """The comparison."""
        capture = read_page((GOLDEN / self.file).read_text(encoding="utf-8"))
        if self.families:
            capture = replace(capture, families={name: capture.families[name] for name in self.families})
        facts = {"driver_version": self.driver} if self.driver else recognized_facts(capture)
        page = sample_page(self.path, self.device, self.instances, self.faults, facts, is_idle=self.is_idle)[1]
        return compared(capture, read_page(page), is_fragment=self.is_fragment)

    @property
    def path(self) -> str:
        """The identity's name in the catalog, or the path of its file."""
        return str(ROOT / self.identity) if "/" in self.identity else self.identity

    def explanation(self, difference: Difference) -> str | None:
        """Why something differs; None where no reason is given."""
        for family, aspect, why in self.explained:
            if re.search(family, difference.family) and re.fullmatch(aspect, difference.aspect):
                return why
        return None


CASES: Final = (
    Case(
        "dcgm@3.0",
        "a100",
        "dcgm-exporter-3.0-a100-idle-mig-disabled.0.prom",
        "a real scrape, A100, idle",
        is_idle=True,
    ),
    Case(
        "dcgm@3.0",
        "a100",
        "dcgm-exporter-3.0-a100-mig-active-1g5gb.prom",
        "a real scrape, A100 divided into one instance (MIG)",
        (("TENSOR", "range", "the work on the instance used no tensor cores"),),
        instances=("1g.5gb",),
    ),
    Case(
        "dcgm@4.8.2",
        "h100",
        "dcgm-exporter-4.8.2.DERIVED-default-2xH100.prom",
        "put together by the exporter's template, with a row of XID 0",
        driver=_DRIVER_WITH_XID_0,
    ),
    Case(
        "etc/dcgm-exporter/identity.yaml",
        "h100",
        "dcgm-exporter-4.8.2.DERIVED-exp.prom",
        "the families that the exporter makes itself",
        is_fragment=True,
        faults=(_XID_79, _XID_79, {"kind": "power-cap", "watts": 300, "devices": "*/1", "start": "30s"}),
    ),
    Case(
        "dcgm@4.8.3",
        "h100",
        "dcgm-exporter-4.8.3.DERIVED-default-2xH100.prom",
        "put together from notes on the version, with a row of XID 0",
        (
            ("NVLINK", "TYPE", "a gauge in the release's own list; the text was made before it"),
            (
                "ENERGY|PCIE",
                "numbers",
                "Go writes an exponent from a million on, as other pages of its library do; the text has none",
            ),
        ),
        driver=_DRIVER_WITH_XID_0,
    ),
    Case(
        "xpumanager@1.3",
        "max-1550",
        "intel-xpumanager-1.3.DERIVED.prom",
        "made by the exporter's code, a board of two tiles, without three of its counters of errors",
        is_fragment=True,
    ),
    Case(
        "collectd@6",
        "dg1",
        "collectd-gpu-sysman.DERIVED.prom",
        "two families, from its source",
        is_fragment=True,
    ),
    *(
        Case(
            "nvidia-gpu-exporter@1",
            "h100",
            f"nvidia_gpu_exporter.linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__{state}.prom",
            f"a test text made of a real capture, H100, {state}",
            _SMI,
            is_idle=state == "idle",
        )
        for state in ("idle", "load")
    ),
    *(
        Case(
            "nvidia-gpu-exporter@1",
            "h200",
            f"nvidia_gpu_exporter.linux-x86_64__nvidia-h200__590.48.01__{state}.prom",
            f"a test text made of a real capture, H200, {state}",
            _SMI,
            is_idle=state == "idle",
        )
        for state in ("idle", "load")
    ),
    Case(
        "dcgm@4.4.1-4.6.0",
        "rtx-4000-ada",
        "dcgm-exporter-4.5.x-rtx4000ada-pod.prom",
        "a real scrape of 4.5.x, RTX 4000 Ada with a pod",
        (
            (
                "FB_USED|PROF_",
                "range",
                "the scraped board is idle, the page has an idle and a busy one",
            ),
        ),
    ),
    Case(
        "amd-device-metrics@1",
        "mi300x",
        "amd-device-metrics-exporter.fragments.prom",
        "single lines of three boards, as one page",
        (
            ("gfx_activity", "labels", "a line of 1.3, before `deployment_mode` and jobs, with optional labels"),
            (
                ".*",
                "labels",
                "examples of its documents: the labels of 1.2 and the words of 1.4.2, which no release has together",
            ),
        ),
        is_fragment=True,
    ),
    Case(
        "etc/amd-device-metrics/labels-1.2.yaml",
        "mi300x",
        "amd-device-metrics-exporter.fragments.prom",
        "the lines of its documents alone",
        is_fragment=True,
        families=("gpu_clock", "gpu_xgmi_link_rx"),
    ),
    Case(
        "etc/amd-device-metrics/labels-1.3.yaml",
        "mi300x",
        "amd-device-metrics-exporter.fragments.prom",
        "the line of 1.3 alone",
        is_fragment=True,
        families=("gpu_gfx_activity",),
    ),
)


def section() -> str:
    """The section of the document."""
    lines = [
        _HEAD,
        "`fakedev conform` of each identity against every reference text at hand, on two boards, one idle and "
        "one busy (or both idle, as some texts)",
        "(the texts are beside the project on the developers' machines; a test "
        "keeps this section as it is). Seven aspects of each",
        "family are compared: whether both have it, TYPE, HELP, labels and their "
        "order, how numbers are written, their magnitude, and",
        "the order of families. A text that is a *fragment* is no whole page: compared with `--fragment`, which does",
        "not count what the text lacks.",
        "",
        "| identity | against | score | differences |",
        "|---|---|---|---|",
    ]
    for case in CASES:
        result = case.result()
        counted: dict[str, int] = {}
        for difference in result.differences:
            why = case.explanation(difference) or f"unexplained: {difference}"
            counted[why] = counted.get(why, 0) + 1
        words = "; ".join(f"{count}: {why}" for why, count in counted.items()) or "none"
        text = f"fragment: {case.text}" if case.is_fragment else case.text
        lines.append(f"| {case.identity} | {text} | {result.percent:.1f} % | {words} |")
    lines += ["", _NOT_CERTAIN]
    return "\n".join(lines) + "\n"


def with_own_section(document: str) -> str:
    """A document with the section in its place."""
    return with_section(document, _HEAD, section())


if __name__ == "__main__":
    DOCUMENT.write_text(with_own_section(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
