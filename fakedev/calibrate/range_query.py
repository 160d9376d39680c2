"""Raw samples of a Prometheus, by its HTTP API."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from fakedev.calibrate.runs import OPTIONAL, REQUIRED, RunError, Series, read_answer
from fakedev.clone.prometheus_server import PrometheusServer
from fakedev.fleet.spec.fleet_spec import MetricName


def raw_samples(
    server: PrometheusServer, names: Mapping[str, MetricName], only: Mapping[str, str], seconds: float
) -> list[Series]:
    """The samples of the last seconds, as they were scraped: a range query would invent values between them.

    :param names: quantity and unit of each family; only quantities that a run can have are queried.
    :param only: labels that series must have.
    :raises RunError: when the server does not answer, or answers with an error.
    """
    chosen = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in sorted(only.items()))
    found = []
    for family, name in names.items():
        if name.quantity in (*REQUIRED, *OPTIONAL):
            query = f"{family}{{{chosen}}}[{max(round(seconds * 1000), 1)}ms]"
            try:
                data = server.ask("query", {"query": query, "time": f"{time.time():.3f}"})
            except (ConnectionError, ValueError) as error:
                raise RunError(str(error)) from None
            found += read_answer(data, f"{server.url}: {family}")
    return found
