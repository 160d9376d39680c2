"""What an alert rule is to find, as words: kinds of faults, effects, entries of a timeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fakedev.base.errors import did_you_mean
from fakedev.base.groups import grouped
from fakedev.fleet.spec.fault_kinds import KINDS, Scope
from fakedev.scenario.truth import CODED, EFFECTS, Cause, Effect, Truth


@dataclass(frozen=True)
class Word:
    """One word of what a rule is to find.

    :ivar name: the kind of a fault, of an effect, or both; or an entry of the timeline.
    :ivar values: that a fault, or the code that an effect, must have.
    """

    text: str
    name: str
    values: Mapping[str, float] = field(default_factory=dict, hash=False)
    is_entry: bool = False

    def takes_cause(self, cause: Cause) -> bool:
        """Whether a fault is meant."""
        if self.is_entry:
            return cause.name == self.name
        parameters = {parameter.name: parameter.default for parameter in KINDS[cause.kind].parameters}
        return cause.kind == self.name and all(
            cause.values.get(name, parameters.get(name)) == value for name, value in self.values.items()
        )

    def takes_effect(self, effect: Effect) -> bool:
        """Whether an effect is meant."""
        return not self.is_entry and effect.kind == self.name and self.values.get("code", effect.code) == effect.code


def read_word(text: str, entries: Collection[str]) -> Word:
    """A word: ``fan``, ``xid code=79``, ``throttled_thermal``, or the name of an entry of the timeline.

    A name of an entry means the entry, also when there is a kind of that name.

    :raises ValueError: for an unknown word, with the nearest one.
    """
    name, *given = text.split()
    if name in entries and not given:
        return Word(text, name, is_entry=True)
    if name not in KINDS and name not in EFFECTS:
        known = (*KINDS, *EFFECTS, *entries)
        what = "is neither a kind of fault, nor an effect, nor the name of an entry of the timeline"
        raise ValueError(f"{name[:100]!r} {what}{did_you_mean(name, known)}")
    parameters = {parameter.name: parameter for parameter in KINDS[name].parameters} if name in KINDS else {}
    names = [*parameters, *(["code"] if name in CODED and name not in KINDS else [])]
    values: dict[str, float] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or key not in names:
            hint = did_you_mean(key, names) if names else ": it takes no values"
            raise ValueError(f"{text[:100]!r}: {name} takes no {key[:100]!r}{hint}")
        try:
            values[key] = float(value)
        except ValueError:
            raise ValueError(f"{text[:100]!r}: {value[:100]!r} is no number") from None
    return Word(text, name, values)


@dataclass(frozen=True)
class Incident:
    """Something that a rule is to find.

    :ivar what: its fault or effect, in words.
    :ivar causes: the places of its faults among the causes of the truth.
    :ivar after_seconds: until when something follows from it: the end of the effects that it brought; None: beyond the
        end of the run.
    """

    what: str
    begin_seconds: float
    end_seconds: float | None
    devices: tuple[str, ...]
    causes: tuple[int, ...] = ()
    after_seconds: float | None = None


def incidents_of(words: Collection[Word], truth: Truth, brought: Mapping[int, Collection[Effect]]) -> list[Incident]:
    """What really happened of what a rule is to find, in order of time.

    An effect is an incident of its own if none of its faults is one. The boards of a node that is down are not lost:
    the node is.

    :param brought: the effects of each cause (:func:`effects_of_causes`).
    """
    found = [
        incident_of(place, cause, brought.get(place, ()))
        for place, cause in enumerate(truth.causes)
        if any(word.takes_cause(cause) for word in words)
    ]
    taken = {place for incident in found for place in incident.causes}
    of_effect = grouped((id(effect), place) for place, effects in brought.items() for effect in effects)
    for effect in truth.effects:
        causes = tuple(of_effect.get(id(effect), ()))
        if effect.kind == "lost" and any(KINDS[truth.causes[place].kind].scope is Scope.NODE for place in causes):
            continue
        if not taken.intersection(causes) and any(word.takes_effect(effect) for word in words):
            what = f"{effect.kind} {effect.code}" if effect.kind in CODED else effect.kind
            end = effect.end_seconds
            found.append(Incident(what, effect.begin_seconds, end, effect.devices, causes, end))
    return sorted(found, key=lambda each: (each.begin_seconds, each.what, each.devices))


def incident_of(place: int, cause: Cause, effects: Collection[Effect]) -> Incident:
    """A fault as an incident.

    :param effects: that it brought.
    """
    ends = [cause.end_seconds, *(effect.end_seconds for effect in effects)]
    after = None if None in ends else max(end for end in ends if end is not None)
    values = "".join(f" {name}={value:g}" for name, value in cause.values.items())
    what = f"{cause.kind}{values}" + (f" ({cause.name})" if cause.name else "")
    return Incident(what, cause.begin_seconds, cause.end_seconds, cause.devices, (place,), after)


def effects_of_causes(truth: Truth) -> dict[int, list[Effect]]:
    """The effects that each cause brought, by its place among the causes.

    A fault that happens several times is several causes of one id: an effect is of the last one before it.
    """
    by_id = grouped((cause.fault_id, (cause.begin_seconds, place)) for place, cause in enumerate(truth.causes))
    brought: dict[int, list[Effect]] = {}
    for effect in truth.effects:
        for fault_id in effect.causes:
            times = by_id.get(fault_id, [])
            before = [time for time in times if time[0] <= effect.begin_seconds]
            if times:
                brought.setdefault(max(before)[1] if before else min(times)[1], []).append(effect)
    return brought


