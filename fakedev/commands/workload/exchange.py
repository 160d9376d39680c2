"""What fakedev-workload puts on the wire: one message that our server and the original's both take.

To ours it is a JSON line with ``op``. The original's Go server reads names in any letter case and
skips those it does not know, so that to it the same bytes are the bare form it expects, as long
as they fit its one read of 1024 bytes and activities are whole numbers. That read, too, is why
the newline has to leave with the rest: a byte more, later, is a lost connection to it.
"""

from __future__ import annotations

import json
from typing import Final

from fakedev.spec.fleet import FOREVER, Activity, WorkloadSpec
from fakedev.spec.profile_fields import use_profile, use_word
from fakedev.spec.value_functions import Function, Value

#: The line length that the line protocols allow.
LONGEST_MESSAGE: Final = 65536
#: What the original's server reads of a message.
ORIGINAL_READS: Final = 1024


def run_message(workload: WorkloadSpec) -> bytes:
    """The request to run a workload, as one line.

    :raises ValueError: when no server would take it.
    """
    request: dict[str, object] = {
        "op": "run",
        "id": 1,
        "name": workload.name,
        "repeat": workload.repeat,
        "profile": [_activity(activity) for activity in workload.activities],
        "devices": list(workload.devices),
        "seconds-of": "work" if workload.is_work else "",
        "kind": "" if workload.kind == "compute" else workload.kind,
        "node": workload.node,
        "pod": workload.pod,
        "namespace": workload.namespace,
        "container": workload.container,
        "limits": {metric: _plain(value) for metric, value in workload.limits},
        "run-time-limit": _plain(workload.run_time_limit_seconds),
        "ttl": _plain(workload.ttl_seconds),
        "metrics": {use_word(use): use_profile(use) for use in workload.uses},
        "measured-frequency": _plain(workload.measured_frequency_mhz),
        "measured-capability": _plain(workload.measured_capability),
        "faults": [dict(fault) for fault in workload.faults],
    }
    kept = {key: value for key, value in request.items() if key == "repeat" or value}
    try:
        message = json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise ValueError(f"{error.object!r} is not UTF-8") from None
    if len(message) > LONGEST_MESSAGE:
        raise ValueError(f"the workload takes {len(message)} bytes on the wire: at most {LONGEST_MESSAGE} are possible")
    return message


def beyond_the_original(workload: WorkloadSpec, message: bytes) -> list[str]:
    """What the original's server would refuse a workload for, each as a sentence's end."""
    reasons = []
    if len(message) > ORIGINAL_READS:
        reasons.append(f"its message takes {len(message)} bytes, and the original reads {ORIGINAL_READS}")
    values = [value for a in workload.activities for value in (a.value, a.fluctuation, a.seconds)]
    if any(isinstance(value, Function) for value in values):
        reasons.append("its loads change within an activity, and the original takes numbers")
    if any(not isinstance(value, Function) and not value.is_integer() for value in values):
        reasons.append("its activities have fractions, and the original takes whole numbers")
    return reasons


def unknown_to_the_original(workload: WorkloadSpec) -> list[str]:
    """What the original's server would take and not act on."""
    asked = {
        "limits": workload.limits,
        "run-time limit": workload.run_time_limit_seconds,
        "ttl": workload.ttl_seconds,
        "metrics": workload.uses,
        "faults": workload.faults,
        "scaling": workload.measured_frequency_mhz or workload.measured_capability,
        "seconds of work": workload.is_work,
        "kind of work": workload.kind != "compute",
        "node": workload.node,
        "pod": workload.pod or workload.namespace or workload.container,
    }
    return [name for name, value in asked.items() if value]


def _activity(activity: Activity) -> dict[str, object]:
    """One activity with its zeros left out, which both servers fill in: bytes are scarce."""
    seconds = 0.0 if activity.seconds >= FOREVER else activity.seconds
    numbers = {"load": activity.value, "fluctuation": activity.fluctuation, "seconds": seconds}
    return {name: _shown(number) for name, number in numbers.items() if number}


def _shown(value: Value) -> object:
    if isinstance(value, Function):
        return {value.name: [_plain(each) for each in value.arguments]}
    return _plain(value)


def _plain(number: float) -> float:
    """A number that JSON writes without a fraction when it has none: Go reads integers only so."""
    return int(number) if number.is_integer() else number
