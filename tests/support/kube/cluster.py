"""A cluster for end-to-end tests: one of Kubernetes, or the API server of the tests; both are asked by kubectl."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.support.kube.manifests import MANIFESTS, Object, objects_of, printed_by_script, program
from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import StartAsync, run, skip_or_fail

#: The variable with the kubeconfig file of a cluster that the tests may change.
KUBECONFIG: Final = "FAKEDEV_TEST_KUBECONFIG"
_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/namespaces/default/pods"
_NUMBERS: Final = itertools.count()


class Cluster:
    """Objects of a cluster, by their paths in its API. What the tests create here is removed by ``clean_up``.

    :param kubeconfig: the file.
    :param is_real: there are a scheduler and KWOK, or kubelets; else pods are bound and run by the tests.
    """

    def __init__(self, start_async: StartAsync, folder: Path, kubeconfig: Path, *, is_real: bool) -> None:
        self.kubeconfig = kubeconfig
        self.is_real = is_real
        self._start_async = start_async
        self._folder = folder
        self._made: list[str] = []

    async def kubectl(self, *arguments: str) -> str:
        """What kubectl prints.

        :raises LookupError: the object does not exist.
        """
        path = program("kubectl")
        if path is None:
            skip_or_fail("kubectl is not installed")
        assert path is not None
        done = await run(self._start_async, path, "--kubeconfig", str(self.kubeconfig), *arguments)
        if "(NotFound)" in done.stderr:
            raise LookupError(done.stderr)
        assert done.exit_code == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    async def get(self, path: str) -> Any:
        """An object, or a list.

        :raises LookupError: it does not exist.
        """
        return json.loads(await self.kubectl("get", "--raw", path))

    async def is_gone(self, path: str) -> bool:
        """Whether an object does not exist."""
        try:
            await self.get(path)
        except LookupError:
            return True
        return False

    async def delete(self, path: str) -> None:
        """Remove an object; it may be gone."""
        try:
            await self.kubectl("delete", "--raw", f"{path}?gracePeriodSeconds=0")
        except LookupError:
            return

    async def until(self, path: str, is_so: Callable[[Any], Any], what: str) -> Any:
        """An object, as soon as it is as wanted."""

        async def found() -> Any:
            item = await self.get(path)
            return item if is_so(item) else None

        return await eventually(found, what)

    async def add_node(self, pool: str, labels: Mapping[str, str] | None = None) -> str:
        """A node of a pool as kwok-nodes.sh makes it; its name."""
        prefix = f"fakedev-test-{os.getpid()}-{next(_NUMBERS)}"
        (item,) = objects_of(printed_by_script(MANIFESTS / "kwok-nodes.sh", "1", pool, prefix))
        item["metadata"]["labels"] |= labels or {}
        await self._create(_NODES, item)
        return str(item["metadata"]["name"])

    async def add_pod(
        self, name: str, node: str, gpus: int, annotations: Mapping[str, str] | None = None
    ) -> str:
        """A pod that runs on a node with GPUs, from the scheduler where there is one; its path."""
        spec: Object = {
            "restartPolicy": "Never",
            "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
            "containers": [
                {"name": "main", "image": "fakedev", "imagePullPolicy": "IfNotPresent", "command": ["sleep", "600"],
                 "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
            ],
        }  # fmt: skip
        spec |= {"nodeSelector": {"kubernetes.io/hostname": node}} if self.is_real else {"nodeName": node}
        metadata = {"name": name, "namespace": "default", "annotations": dict(annotations or {})}
        await self._create(_PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        path = f"{_PODS}/{name}"
        if not self.is_real:
            item = await self.get(path)
            item["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
            await self._write("replace", f"{path}/status", item)
        await self.until(path, lambda pod: pod["status"].get("phase") == "Running", f"the pod {name} runs")
        return path

    async def events_of(self, name: str) -> list[Object]:
        """The events at an object."""
        events = await self.get("/api/v1/events")
        return [each for each in events["items"] if each["involvedObject"]["name"] == name]

    async def clean_up(self) -> None:
        """Remove what the tests created."""
        for path in reversed(self._made):
            await self.delete(path)

    async def _create(self, path: str, item: Object) -> None:
        self._made.append(f"{path}/{item['metadata']['name']}")
        await self._write("create", path, item)

    async def _write(self, verb: str, path: str, item: Object) -> None:
        file = self._folder / "object.json"
        file.write_text(json.dumps(item), encoding="utf-8")
        await self.kubectl(verb, "--raw", path, "--filename", str(file))


def node_path(name: str) -> str:
    """The path of a node in the API."""
    return f"{_NODES}/{name}"
