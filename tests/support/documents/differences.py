"""What the images and the chart answer as the originals do, and what differs, row by row.

Each row names the test that shows it. Run as a script it writes the section of doc/switching.md again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.support.documents.sections import with_section
from tests.support.paths import DOCUMENTS

DOCUMENT: Final = DOCUMENTS / "switching.md"
_HEAD: Final = "## Images and charts, row by row\n"
_IMAGE: Final = "tests/image/test_image.py::"
_FAKE: Final = f"{_IMAGE}TestDcgmFake::"
_DROP_IN: Final = "tests/commands/dropins/test_dcgm_exporter.py::"
_CHART: Final = "tests/manifests/test_chart_values.py::"


@dataclass(frozen=True)
class Row:
    """One thing that users of an original rely on.

    :param test: the test that shows what is said.
    :param there: what the original does; empty where both do the same.
    :param here: what fakedev does.
    :param reason: why it differs.
    """

    what: str
    test: str
    there: str = ""
    here: str = ""
    reason: str = ""


ROWS: Final = {
    "intel/fakedev-exporter": (
        Row("`/fakedev-exporter`, `/fakedev-workload` with their options; the files in `/devices`, `/identity`, "
            "`/workloads`", f"{_IMAGE}test_fakedev_exporter"),
        Row("user 65534, read-only root file system, no capabilities; SIGTERM: exit code 0",
            f"{_IMAGE}test_fakedev_exporter"),
        Row("without a command", f"{_IMAGE}test_without_arguments", "prints its help", "serves the demo",
            "one image for all programs"),
        Row("manifests: names, labels, ports", "tests/manifests/test_originals.py::test_a_base"),
    ),
    "intel/k8s-device-scalability-tester": (
        Row("`/tester-frontend`, `/tester-backend`, `/tester-client` with their options and pages; SIGTERM: "
            "exit code 0", f"{_IMAGE}test_scalability_tester"),
        Row("without a command", f"{_IMAGE}test_without_arguments", "prints the help of the frontend",
            "serves the demo", "one image for all programs"),
        Row("manifests: names, labels, ports", "tests/manifests/test_originals.py::test_services_reach_the_pods"),
    ),
    "dcgm-fake-gpu-exporter": (
        Row("variables: number, profiles, interval, first index, port, socket", f"{_FAKE}test_by_variables"),
        Row("no variable is set", f"{_IMAGE}test_without_arguments", "4 static GPUs",
            "the demo; `docker-entrypoint.sh` and the stage `dcgm-fake-gpu-exporter` are as there",
            "one image for all programs"),
        Row("`/health`, and curl in the container for health checks", f"{_FAKE}test_by_variables"),
        Row("the UNIX socket: its path, mode 666, the same page", f"{_FAKE}test_by_variables"),
        Row("the UNIX socket answers a peer", f"{_DROP_IN}test_the_socket_waits_for_a_request", "at once, and closes",
            "after a request of HTTP; it closes for `Connection: close`, for HTTP/1.0 and after 60 s",
            "it is the HTTP server of all addresses: clients that read to the end send `Connection: close`"),
        Row("names of the page", f"{_DROP_IN}test_fake_exporter_with_newer_names",
            "lower case until 2025, then DCGM's names",
            "lower case; DCGM's names with `FAKEDEV_IDENTITY=dcgm-fake@2026.01`",
            "its dashboards, alert rules and published image have the former"),
        Row("names of profiles, in any case", f"{_DROP_IN}test_every_profile_can_be"),
        Row("an unknown profile", f"{_DROP_IN}test_values_that_cannot_be", "is static, with a warning",
            "ends the program with 2", "a mistake stays no secret"),
        Row("user", f"{_FAKE}test_a_folder_of_root", "root",
            "9400 of group 0; root in the stage `dcgm-fake-gpu-exporter`",
            "it needs no rights; only folders of root that are mounted do"),
        Row("DCGM: port 5555, `dcgmi`", f"{_FAKE}test_by_variables", "a host engine", "none",
            "DCGM's programs cannot be replaced by its fields"),
    ),
    "fake-gpu-operator": (
        Row("values of the chart", f"{_CHART}test_the_values_of_fake_gpu_operator", "each has an effect",
            "each has it, or the notes of the installation name it", "one service does the work of its programs"),
        Row("an unknown value", f"{_CHART}test_unknown_values_are_refused_at_every_level", "is ignored", "is refused",
            "a typing mistake changes nothing unnoticed"),
        Row("`topology` and `cluster` in the ConfigMap `topology`; Service `topology-server` on port 80",
            f"{_CHART}test_pools_with_profiles"),
        Row("parts that are off", f"{_CHART}test_parts_of_fake_gpu_operator_that_are_off"),
        Row("Service `nvidia-dcgm-exporter`", f"{_CHART}test_the_values_of_fake_gpu_operator",
            "a pod on each node, and `nvidia-dcgm-exporter-kwok` for nodes of KWOK", "one page for all nodes",
            "one service simulates all nodes"),
        Row("RuntimeClass `nvidia`", f"{_CHART}test_the_values_of_fake_gpu_operator"),
        Row("OpenShift", f"{_CHART}test_openshift", "accounts of four programs may use the SCC `privileged`",
            "the account of `fakedev-node` alone", "no other pod is root"),
        Row("images of its programs", f"{_IMAGE}test_topology_of_fake_gpu_operator",
            "one for each, with an entry point in `/bin`", "`fakedev serve` and `fakedev-node`",
            "its programs speak with each other by objects of the API server: the chart is replaced as a whole"),
    ),
}  # fmt: skip


def section() -> str:
    """The section of the document."""
    text = (
        f"{_HEAD}\nThe image is in [kubernetes-manifests.md](kubernetes-manifests.md#containers), the chart in "
        "[kubernetes-manifests.md](kubernetes-manifests.md#the-helm-chart). A test shows each row; "
        "`tests/support/documents/differences.py` names it.\n"
    )
    for original, rows in ROWS.items():
        text += f"\n### {original}\n\n| what | the original | fakedev | why |\n|---|---|---|---|\n"
        for row in rows:
            text += f"| {row.what} | {row.there or 'equal'} | {row.here or 'equal'} | {row.reason} |\n"
    return text


def written() -> str:
    """The document with the section as it should be."""
    return with_section(DOCUMENT.read_text(encoding="utf-8"), _HEAD, section())


if __name__ == "__main__":
    DOCUMENT.write_text(written(), encoding="utf-8")
