"""Raw samples of a Prometheus, by its HTTP API."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode, urlsplit

from fakedev.base.errors import printable
from fakedev.calibrate.runs import OPTIONAL, REQUIRED, RunError, Series, read_answer
from fakedev.fleet.spec.fleet_spec import MetricName

_TIMEOUT_SECONDS: Final = 60.0
_MOST_BYTES: Final = 64 * 2**20


def raw_samples(
    url: str, names: Mapping[str, MetricName], only: Mapping[str, str], seconds: float
) -> list[Series]:
    """The samples of the last seconds, as they were scraped: a range query would invent values between them.

    :param names: quantity and unit of each family; only quantities that a run can have are queried.
    :param only: labels that series must have.
    :raises RunError: when the server does not answer, or answers with an error.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise RunError(f"--prometheus {printable(url)[:100]!r} is no address: give http://HOST:PORT")
    chosen = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in sorted(only.items()))
    found = []
    for family, name in names.items():
        if name.quantity in (*REQUIRED, *OPTIONAL):
            text = _answer(url, f"{family}{{{chosen}}}[{max(round(seconds * 1000), 1)}ms]")
            found += read_answer(text, f"{url}: {family}")
    return found


def _answer(url: str, query: str) -> str:
    words = urlencode({"query": query, "time": f"{time.time():.3f}"})
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/api/v1/query?{words}", timeout=_TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        body = error.read(_MOST_BYTES)
        if not body.lstrip().startswith(b"{"):
            raise RunError(f"{url}: the server answers {error.code} {printable(str(error.reason))[:100]}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise RunError(f"{url}: no answer: {printable(str(reason))[:200]}") from None
    if len(body) > _MOST_BYTES:
        raise RunError(f"{url}: the answer has over {_MOST_BYTES} bytes: give --only or a shorter --range")
    return body.decode("utf-8", "replace")
