"""What pods do: annotations and labels as workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.events import StartWorkload
from fakedev.fleet.spec.fleet_spec import PoolSpec
from fakedev.fleet.spec.offers import KubernetesSettings
from fakedev.fleet.spec.workload_fields import fields_of_workload, workload_from_fields
from fakedev.fleet.spec.workload_spec import FOREVER, WorkloadSpec
from fakedev.kubernetes.devices.node_ledger import NodeLedger
from fakedev.kubernetes.pods import Pod
from fakedev.kubernetes.workloads import work as words
from fakedev.kubernetes.workloads.work import PodWork, work_of, workloads_of
from tests.kubernetes.objects import annotated, container, init, node_of, pod, pool, sidecar
from tests.support.fleet.fleets import advance, loads, make_fleet

POOL = pool("h100", 4)
SETTINGS = KubernetesSettings()


def of(annotations: Mapping[str, str], board: PoolSpec = POOL, **more: Any) -> PodWork:
    """The work of a pod with annotations."""
    return work_of(annotated(annotations, **more), SETTINGS, board)


def fields(annotations: Mapping[str, str], board: PoolSpec = POOL, **more: Any) -> dict[str, object]:
    """The work's fields that are not defaults, without name and devices; there are no problems."""
    found = of(annotations, board, **more)
    assert not found.problems
    given_fields = fields_of_workload(found.running)
    return {name: value for name, value in given_fields.items() if name not in ("name", "devices")}


def load(annotations: Mapping[str, str], **more: Any) -> object:
    """The profile."""
    return fields(annotations, **more)["profile"]


class TestLoad:
    def test_default(self) -> None:
        """That of the configuration, for ever; the memory is what the device type uses at the load."""
        assert fields({}) == {"profile": "90:10:0", "repeat": 0}
        slow = KubernetesSettings(utilization=(20.0, 30.0))
        assert work_of(pod(), slow, POOL).running.activities == of({words.UTILIZATION: "20-30"}).running.activities

    @pytest.mark.parametrize(
        ("text", "profile"),
        [("10-30", "20:10:0"), ("30", "30:0:0"), (" 80 - 100 ", "90:10:0"), ("12.5", "12.5:0:0"), ("100", "100:0:0")],
    )
    def test_utilization(self, text: str, profile: str) -> None:
        assert load({words.UTILIZATION: text}) == profile

    def test_profile(self) -> None:
        assert load({words.PROFILE: "80:10:1h,0:0:1h", words.UTILIZATION: "5"}) == "80:10:3600,0:0:3600"
        named = fields({words.PROFILE: "training"})
        assert named["kind"] == "training"
        assert "memory?" in str(named["metrics"])

    @pytest.mark.parametrize(
        ("kind", "profile"),
        [
            ("TrainingWorkload", "90:10:0"), ("InteractiveWorkload", "0:0:0"), ("Training", "90:10:0"),
            ("Interactive", "0:0:0"), ("", "7:0:0"),
        ],
    )  # fmt: skip
    def test_workload_kind(self, kind: str, profile: str) -> None:
        """A label of run-ai's workloads, also without the word Workload; an annotation counts first."""
        default = KubernetesSettings(utilization=(7.0, 7.0))
        found = work_of(pod(labels={"workloadKind": kind}), default, POOL)
        assert found.problems == ()
        assert fields_of_workload(found.running)["profile"] == profile
        assert load({words.UTILIZATION: "7"}, labels={"workloadKind": kind}) == "7:0:0"

    @pytest.mark.parametrize(
        ("kind", "reason"),
        [
            ("InferenceWorkload", "requests of Knative are not followed"),
            ("DistributedWorkload", "requests of Knative are not followed"),
            ("Inference", "requests of Knative are not followed"),
            (
                "Notebook",
                "is none of TrainingWorkload, InteractiveWorkload, InferenceWorkload, DistributedWorkload",
            ),
        ],
    )
    def test_kinds_without_a_load(self, kind: str, reason: str) -> None:
        found = work_of(pod(labels={"workloadKind": kind}), SETTINGS, POOL)
        assert found.problems == (f"label workloadKind: {kind!r}: {reason}; the default is used",)
        assert load({words.UTILIZATION: "7"}, labels={"workloadKind": kind}) == "7:0:0"
        assert load({words.PROFILE: "7"}, labels={"workloadKind": kind}) == "7:0:0"

    def test_idle_name(self) -> None:
        """The predecessor's name for pods that do nothing."""
        assert load({}, name="runai-idle-gpu-1") == "0:0:0"

    def test_kind(self) -> None:
        assert fields({words.KIND: "tensor"})["kind"] == "tensor"

    def test_repeat(self) -> None:
        spec = of({words.PROFILE: "80:10:1h,20:0:1h", words.REPEAT: "2"}).running
        assert [activity.value for activity in spec.activities] == [80, 20, 80, 20, 0]
        assert (list(spec.activities)[-1].seconds, spec.repeat) == (FOREVER, 1)


class TestMemory:
    def test_fraction(self) -> None:
        assert fields({words.FRACTION: "0.5"}) == {"profile": "45:5:0", "repeat": 0, "metrics": {"memory?": "50%:0%:0"}}
        assert load({words.FRACTION: "0.1", words.UTILIZATION: "30"}) == "3:0:0"
        assert load({words.FRACTION: "0.1", words.PROFILE: "30"}) == "30:0:0", "a profile says what it means"

    def test_sizes(self) -> None:
        every = {words.MEMORY: "40GiB", words.MEMORY_MIB: "2000", words.FRACTION: "0.5"}
        assert fields(every)["metrics"] == {"memory?": f"{40 * 2**30}:0:0"}
        del every[words.MEMORY]
        assert fields(every)["metrics"] == {"memory?": f"{2000 * 2**20}:0:0"}
        assert fields({words.MEMORY: "30%"})["metrics"] == {"memory?": "30%:0%:0"}
        assert "30%" in str(fields({words.MEMORY: "30%", words.PROFILE: "training"})["metrics"])

    def test_without_load(self) -> None:
        assert fields({words.UTILIZATION: "0"})["metrics"] == {"memory?": "20%:0%:0"}
        shared = pool("t4", 1, replicas=4)
        assert fields({words.UTILIZATION: "0"}, shared)["metrics"] == {"memory?": "5%:0%:0"}

    @pytest.mark.parametrize(
        ("annotations", "demand"),
        [
            ({}, "100%:0%:0"), ({words.UTILIZATION: "0"}, "100%:0%:0"), ({words.PROFILE: "30"}, "100%:0%:0"),
            ({words.FRACTION: "0.25"}, "25%:0%:0"), ({words.FRACTION: "0.25", words.UTILIZATION: "0"}, "25%:0%:0"),
            ({words.MEMORY: "30%"}, "30%:0%:0"), ({words.MEMORY_MIB: "1"}, f"{2**20}:0:0"),
        ],
    )  # fmt: skip
    def test_compatible(self, annotations: Mapping[str, str], demand: str) -> None:
        """Of fake-gpu-operator: the fraction of the memory, without an annotation all of it, whatever the pod does."""
        found = work_of(annotated(annotations), KubernetesSettings(is_compatible=True), POOL)
        assert fields_of_workload(found.running)["metrics"] == {"memory?": demand}


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        (words.UTILIZATION, "30-10", "as 10-30"),
        (words.UTILIZATION, "101", "0 to 100"),
        (words.UTILIZATION, "busy", "0 to 100"),
        (words.UTILIZATION, "", "0 to 100"),
        (words.PROFILE, "80:30", "fluctuation"),
        (words.PROFILE, "trainin", "did you mean training?"),
        (words.PROFILE, "x" * 20_000, "20000 characters"),
        (words.KIND, "tensr", "did you mean tensor?"),
        (words.REPEAT, "often", "whole number"),
        (words.REPEAT, "-1", "whole number"),
        (words.MEMORY, "lots", "no size"),
        (words.MEMORY_MIB, "2Gi", "MiB"),
        (words.FRACTION, "1.5", "at most 1"),
        (words.FRACTION, "nan", "at most 1"),
        (words.FRACTION, "half", "at most 1"),
    ],
)
def test_problems(key: str, text: str, reason: str) -> None:
    """What cannot be read is told in one line with the annotation's name; the default is used."""
    found = of({key: text})
    (problem,) = found.problems
    assert problem.startswith(f"annotation {key}: ")
    assert reason in problem
    assert len(problem) < 400
    assert found.running == of({}).running


def test_repeated_too_often() -> None:
    """A profile that would be too long runs for ever."""
    found = of({words.PROFILE: "80:10:1h,0:0:1h", words.REPEAT: "9000"})
    assert "18000 activities" in found.problems[0]
    assert found.running.repeat == 0


ANNOTATIONS = st.sampled_from(
    [words.UTILIZATION, words.PROFILE, words.KIND, words.REPEAT, words.MEMORY, words.FRACTION, words.MEMORY_MIB]
)
TEXTS = st.one_of(st.text(max_size=20), st.from_regex(r"[0-9]{1,3}[-.:%][0-9]{0,3}", fullmatch=True))


@given(st.dictionaries(ANNOTATIONS, TEXTS), st.sampled_from(["", "Training", "Inference"]))
def test_any_text(annotations: dict[str, str], kind: str) -> None:
    """Whatever a pod says, there is work, and at most one problem for each annotation and label."""
    found = of(annotations, labels={"workloadKind": kind})
    assert len(found.problems) <= len(annotations) + 1
    assert len(found.running.activities) >= 1


class TestWorkloads:
    @staticmethod
    def of_pod(one: Pod, spec: PoolSpec = POOL) -> list[WorkloadSpec]:
        """The workloads of a pod alone on its node."""
        slots = NodeLedger(node_of(spec)).admit(one, ())
        return workloads_of(one, "dgx-0", slots, work_of(one, SETTINGS, spec))

    def test_containers(self) -> None:
        """One for each with devices, with all its names."""
        found = self.of_pod(pod(container("a", 2), container("log", 0), container("b", 1)))
        assert [each.name for each in found] == ["ml/train/a", "ml/train/b"]
        assert [each.devices for each in found] == [("dgx-0/0", "dgx-0/1"), ("dgx-0/2",)]
        assert {(each.namespace, each.pod, each.node) for each in found} == {("ml", "train", "dgx-0")}
        assert [each.container for each in found] == ["a", "b"]
        assert [each.activities.highest for each in found] == [90, 90]

    @pytest.mark.parametrize("phase", ["Pending", "Unknown"])
    def test_before_running(self, phase: str) -> None:
        (found,) = self.of_pod(pod(phase=phase))
        assert (found.activities.highest, found.repeat, found.uses) == (0, 0, ())

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_over(self, phase: str) -> None:
        assert self.of_pod(pod(phase=phase)) == []

    def test_init_containers(self) -> None:
        before = self.of_pod(pod(init("load", 3), sidecar("proxy", 1), container("main", 1), phase="Pending"))
        assert [(each.container, each.devices) for each in before] == [
            ("load", ("dgx-0/2",)), ("proxy", ("dgx-0/0",)), ("main", ("dgx-0/1",)),
        ]  # fmt: skip
        after = self.of_pod(pod(init("load", 3), sidecar("proxy", 1), container("main", 1)))
        assert [each.container for each in after] == ["proxy", "main"]

    def test_replicas_of_one_board(self) -> None:
        (found,) = self.of_pod(pod(container("main", 2)), pool("t4", 1, replicas=2))
        assert found.devices == ("dgx-0/0",)

    def test_in_a_fleet(self) -> None:
        fleet = make_fleet(POOL)
        for spec in self.of_pod(annotated({words.UTILIZATION: "30"})):
            fleet.apply(StartWorkload(spec))
        advance(fleet, 2)
        assert loads(fleet) == [30, 0, 0, 0]


class TestLabels:
    def test_names(self) -> None:
        labels = {"app.kubernetes.io/name": "llm", "app": "", "pod": "x", "namespace": "y", "container": "z"}
        one = pod(labels=labels, uid="u-1")
        assert of({}, uid="u-1", labels=labels).labels == (
            ("pod_uid", "u-1"), ("app", ""), ("app_kubernetes_io_name", "llm"),
        )  # fmt: skip
        (spec,) = TestWorkloads.of_pod(one)
        assert dict(spec.labels) == {"pod_uid": "u-1", "app": "", "app_kubernetes_io_name": "llm"}
        assert spec.pod == "train"
        assert workload_from_fields(fields_of_workload(spec)) == spec, "a record has them"

    def test_before_it_runs(self) -> None:
        (spec,) = TestWorkloads.of_pod(pod(phase="Pending", labels={"app": "llm"}))
        assert dict(spec.labels)["app"] == "llm"

    def test_very_many(self) -> None:
        found = of({}, labels={f"l{number:02}": "x" for number in range(60)})
        assert found.problems == ("it has 60 labels: pages can show the first 50 by name",)
        assert [name for name, _ in found.labels[1:]] == [f"l{number:02}" for number in range(50)]
