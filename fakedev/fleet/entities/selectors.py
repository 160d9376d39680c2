"""Device words: the names of devices in requests, resolved to positions; and the shortest words for given devices.

``card0`` (a device file; unique in the fleet, or with a known node), ``dgx-0/3``, ``dgx-[0-3]/*``, ``dgx-0/card3``,
``all``, ``even``, ``odd`` (by index in the node), also as ``dgx-0/even``. Parts of divided devices have one more word:
``dgx-0/3/1``, ``dgx-0/3/*``, ``*/*/0``; with a known node ``card3/1``.

:func:`words_of` is the inverse: any number of devices and parts in few words (``dgx-[0-1249]/[0-7]``, ``gpu-7/3``,
``mig-0/0/[1-2]``) that resolve to the same devices in the same fleet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from fakedev.base.errors import Refused, did_you_mean, unknown_name
from fakedev.base.groups import grouped
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import Positions

_TOKEN: Final = re.compile(r"\[(\d{1,9})-(\d{1,9})\]|\*+|\?")
_NUMBER: Final = re.compile(r"\d{0,9}")
_GROUPS: Final = ("all", "even", "odd")
#: Words with wildcards in one selection: each may have to look at every node.
MAX_PATTERNS: Final = 64
_MAX_WILDCARDS: Final = 4
#: Characters of a word: more than a name of a node can have.
_MAX_CHARACTERS: Final = 300
#: Wildcards as parts of a pattern; no text in a pattern contains these.
_WILDCARDS: Final = {"*": "\0*", "?": "\0?"}
_MAX_HINTS: Final = 500
_MAX_SHARDS_NAMED: Final = 8
_DIGITS: Final = "0123456789"
#: Longer numbers get no range.
_MAX_DIGITS: Final = 9
#: More than the parts that a device can have: a position in a node is the device's index times this, plus its part.
_ROOM: Final = 1 << 16


def resolve(words: Sequence[str], roster: Roster, node: str = "") -> Positions:
    """The units (devices and parts) that the words name, ascending, each once.

    :param node: the node of bare words (``card0``, ``all``); empty for the whole fleet.
    :raises Refused: ``unknown-name`` for a word that names nothing, ``bad-argument`` for an ambiguous word.
    """
    if node and roster.node(node) is None:
        raise no_node(node, roster, "node")
    words = list(dict.fromkeys(words))
    if sum(map(is_pattern, words)) > MAX_PATTERNS:
        raise Refused("bad-argument", f"more than {MAX_PATTERNS} device words with wildcards", "devices")
    chosen: set[int] = set()
    for word in words:
        if word.count("/") > 1:
            chosen.update(_parts(word, roster))
            continue
        part, slash, device = word.rpartition("/")
        if node and slash and _is_device_of(part, node, roster):
            chosen.update(_parts(f"{node}/{word}", roster))
            continue
        if slash or node or is_pattern(word):
            is_bare = not slash and not node
            chosen.update(_on_nodes(part if slash else node or "*", device, roster, is_whole_fleet=is_bare))
        else:
            chosen.add(_only_device(word, roster))
    return np.array(sorted(chosen), dtype=np.int64)


def resolve_here(
    words: Sequence[str], roster: Roster, node: str = "", *, of_configuration: bool = False
) -> Positions:
    """As :func:`resolve`, but in a shard the words name units of the whole fleet; the result has the shard's units.

    :param of_configuration: the words are for all shards, so that this shard may have none of the units.
    :raises Refused: also for words that name a node of another shard, or no unit of this shard.
    """
    if roster.whole is None:
        return resolve(words, roster, node)
    found = resolve(words, roster.whole, node)
    if not of_configuration:
        for name in [node, *(word.partition("/")[0] for word in words if "/" in word)]:
            if roster.whole.node(name) is not None and roster.node(name) is None:
                raise _elsewhere(f"node {name!r}", [name], roster, "node" if name == node else "devices")
    here = roster.here[found]
    here = np.sort(here[here >= 0])
    if not len(here) and not of_configuration:
        names = {roster.whole.nodes[each].name for each in np.unique(roster.whole.node_positions(found)).tolist()}
        raise _elsewhere(f"{', '.join(words)[:80]}: all that this names", names, roster, "devices")
    return here


def _elsewhere(what: str, nodes: Collection[str], roster: Roster, where: str) -> Refused:
    assert roster.shard is not None
    shards = sorted({roster.shard.other(name).number for name in nodes})
    names = ", ".join(map(str, shards[:_MAX_SHARDS_NAMED])) + (", ..." if len(shards) > _MAX_SHARDS_NAMED else "")
    of = f"shard{'s' * (len(shards) > 1)} {names} of {roster.shard.count}"
    return Refused("unknown-name", f"{what} is in {of}, and this is shard {roster.shard}", where)


def is_pattern(word: str) -> bool:
    """Whether a device word may name many devices."""
    return word in _GROUPS or _TOKEN.search(word) is not None


def _is_device_of(word: str, node: str, roster: Roster) -> bool:
    """Whether a word before a slash names a device of the node, so that ``card3/1`` is a part."""
    found = roster.node(node)
    return found is not None and roster.node(word) is None and (word in roster.files(found.pool) or word.isdecimal())


def _only_device(file: str, roster: Roster) -> int:
    """The only device of the fleet with that device file."""
    pools = [pool for pool in roster.pools if file in roster.files(pool)]
    names = [(node.name, pool) for pool in pools for node in pool.nodes[:2]]
    if not names:
        known = [name for pool in roster.pools for name in roster.files(pool)]
        raise Refused("unknown-name", f"no device {file!r}{_hint_of(file, known, roster)}", "devices")
    if len(names) > 1:
        (first, pool), (second, other) = names[:2]
        raise Refused(
            "bad-argument",
            f"device {file!r} is on {sum(len(pool.nodes) for pool in pools)} nodes: name one, "
            f"as {first}/{roster.files(pool)[file]} or {second}/{roster.files(other)[file]}, or give node=",
            "devices",
        )
    (name, pool), found = names[0], roster.node(names[0][0])
    assert found is not None, name
    return found.first + roster.files(pool)[file]


def _on_nodes(part: str, device: str, roster: Roster, *, is_whole_fleet: bool) -> list[int]:
    """Positions of the devices that the part after the slash names, on the nodes that the part before it names."""
    nodes = _nodes(part, roster)
    if not nodes:
        raise no_node(part, roster, "devices")
    pools = {id(node.pool): node.pool for node in nodes}
    indices = {key: _indices(device, roster.files(pool)) for key, pool in pools.items()}
    found = [node.first + index for node in nodes for index in indices[id(node.pool)]]
    if not found:
        known = [file for node in nodes[:100] for file in roster.files(node.pool)]
        has = f": {_range_of(nodes[0])}"
        raise Refused("unknown-name", f"no device {device!r}{did_you_mean(device, known[:_MAX_HINTS], has)}", "devices")
    if is_whole_fleet and device not in _GROUPS and len(nodes) > 1:
        raise Refused(
            "bad-argument", f"{device!r} may be on any of {len(nodes)} nodes: say */{device} for all of them", "devices"
        )
    return found


def _parts(word: str, roster: Roster) -> list[int]:
    """The units of the parts that a word with two slashes names."""
    device_word, _, part = word.rpartition("/")
    of, _, noun = device_word.rpartition("/")
    if noun == "link":
        text = f"{word[:80]!r} is a link: name the device, {of[:80]}, and of link-down the link as link={part[:9]}"
        raise Refused("bad-argument", text, "devices")
    node, _, device = device_word.rpartition("/")
    devices = _on_nodes(node, device, roster, is_whole_fleet=False)
    fits = _matcher(part)
    parts = [roster.parts.of(device) for device in devices]
    found = [unit for units in parts for unit in units if fits(str(unit - units.start))]
    if not found:
        of, count = roster.unit_name(devices[0]), len(parts[0])
        has = f"{of} has {count}: 0 to {count - 1}" if count else f"{of} is not divided"
        raise Refused("unknown-name", f"no part {part[:80]!r}: {has}", "devices")
    return found


def no_node(name: str, roster: Roster, where: str) -> Refused:
    """The error for an unknown node."""
    if roster.whole is not None and roster.whole.node(name) is not None:
        return _elsewhere(f"node {name!r}", [name], roster, where)
    known = [node.name for node in roster.nodes]
    if not known:
        return Refused("unknown-name", "the fleet has no node: none of its cluster has come yet", where)
    return Refused("unknown-name", unknown_name("node", name, known), where)


def _nodes(part: str, roster: Roster) -> list[RosterNode]:
    """The nodes that a word names; a full name needs no search."""
    named = roster.node(part)
    if named is not None:
        return [named]
    if part == "*":
        return list(roster.nodes)
    if not _TOKEN.search(part):
        return []
    fits = _matcher(part)
    return [node for node in roster.nodes if fits(node.name)]


def _indices(part: str, files: Mapping[str, int]) -> list[int]:
    """The indices in a node that a word names, by number, device file or group."""
    if part in _GROUPS:
        return [index for index in files.values() if part == "all" or index % 2 == (part == "odd")]
    if part in files:
        return [files[part]]
    fits = _matcher(part)
    return [index for file, index in files.items() if fits(str(index)) or fits(file)]


def _hint_of(word: str, files: Sequence[str], roster: Roster) -> str:
    """What may have been meant by a word that is no device file."""
    node = roster.node(word)
    if node is not None:
        return f": it is a node; name its devices, as {node.name}/0 or {node.name}/*"
    example = next((f": name a device as {node.name}/0" for node in roster.nodes if len(node.devices)), "")
    return did_you_mean(word, files[:_MAX_HINTS], example)


def _range_of(node: RosterNode) -> str:
    count = len(node.devices)
    return f"{node.name} has {count}: 0{f' to {count - 1}' * (count > 1)}" if count else f"{node.name} has none"


def _matcher(pattern: str) -> Callable[[str], bool]:
    """A function that tests names: ``*`` is any text, ``?`` one character, ``[2-15]`` a number in the range.

    :raises Refused: for too long a pattern, or too many wildcards.
    """
    if len(pattern) > _MAX_CHARACTERS:
        raise Refused("bad-argument", f"{pattern[:80]!r}... is longer than {_MAX_CHARACTERS} characters", "devices")
    if len(_TOKEN.findall(pattern)) > _MAX_WILDCARDS:
        raise Refused("bad-argument", f"more than {_MAX_WILDCARDS} wildcards in {pattern[:80]!r}", "devices")
    glob = _Glob(pattern)
    return glob.fits


class _Glob:
    """A pattern of names, matched in time that grows with the length of the name, not with a power of it.

    Each wildcard takes as much as it can, as in a regular expression; a failed attempt is not repeated.
    """

    def __init__(self, pattern: str) -> None:
        #: Texts, wildcards and ranges.
        self._parts: list[str | tuple[int, int]] = []
        begin = 0
        for token in _TOKEN.finditer(pattern):
            literal = pattern[begin : token.start()]
            self._parts += [literal] if literal else []
            self._parts.append((int(token[1]), int(token[2])) if token[1] is not None else _WILDCARDS[token[0][0]])
            begin = token.end()
        self._parts += [pattern[begin:]] if pattern[begin:] else []

        self._ranges = [part for part in self._parts if isinstance(part, tuple)]

    def fits(self, name: str) -> bool:
        first = self._parts[0] if self._parts else ""
        if isinstance(first, str) and not first.startswith("\0") and not name.startswith(first):
            return False
        numbers = self._rest(name, 0, 0, {}, set())
        return numbers is not None and all(
            low <= number <= high for number, (low, high) in zip(numbers, self._ranges, strict=True)
        )

    def _rest(
        self, name: str, place: int, begin: int, stars: dict[int, int], failed: set[tuple[int, int]]
    ) -> tuple[int, ...] | None:
        """The numbers of the parts from ``place`` on, which begin at ``begin`` of the name.

        :param stars: by part that is a ``*``, a place of the name: what follows it begins neither there nor later.
        :param failed: the other (part, begin) that do not fit.
        """
        if place == len(self._parts):
            return () if begin == len(name) else None
        part = self._parts[place]
        if part == _WILDCARDS["*"]:
            for end in range(stars.get(place, len(name) + 1) - 1, begin - 1, -1):
                found = self._rest(name, place + 1, end, stars, failed)
                if found is not None:
                    return found
            stars[place] = min(begin, stars.get(place, begin))
            return None
        if (place, begin) in failed:
            return None
        found = None
        if part == _WILDCARDS["?"]:
            found = self._rest(name, place + 1, begin + 1, stars, failed) if begin < len(name) else None
        elif isinstance(part, str):
            if name.startswith(part, begin):
                found = self._rest(name, place + 1, begin + len(part), stars, failed)
        else:
            for digits in range(len(_NUMBER.match(name, begin)[0]), 0, -1):  # type: ignore[index]  # matches always
                after = self._rest(name, place + 1, begin + digits, stars, failed)
                if after is not None:
                    found = (int(name[begin : begin + digits]), *after)
                    break
        if found is None:
            failed.add((place, begin))
        return found


def words_of(roster: Roster, units: Positions) -> list[str]:
    """Device words for some units (devices and parts), ascending; a device includes its parts."""
    parts = roster.parts
    units = parts.without_parts(units)
    if len(units) <= 1:
        return [roster.unit_name(unit) for unit in units.tolist()]
    nodes = roster.node_positions(units)
    if parts.count:
        order = np.argsort(nodes, kind="stable")
        units, nodes = units[order], nodes[order]
    begins = np.flatnonzero(np.diff(nodes, prepend=-1))
    ends = [*begins[1:].tolist(), len(nodes)]
    here = nodes[begins].tolist()
    firsts = np.repeat([roster.nodes[node].first for node in here], np.diff(begins, append=len(nodes)))
    places = _places(roster, units, firsts)
    # Nodes with the same units share a word.
    alike = grouped(
        (places[begin:end].tobytes(), node) for node, begin, end in zip(here, begins.tolist(), ends, strict=True)
    )
    words = []
    for key, those in alike.items():
        devices = _devices(np.frombuffer(key, dtype=np.int64).tolist())
        nodes_alike = _names([roster.nodes[node].name for node in those])
        words += [f"{node}/{device}" for node in nodes_alike for device in devices]
    return words


def _places(roster: Roster, units: Positions, firsts: Positions) -> Positions:
    """Each unit's position in its node: index times _ROOM, plus 1 and the number for a part: shape as units.

    :param firsts: the first device of each unit's node.
    """
    parts = roster.parts
    owners = parts.owners_of(units)
    places: Positions = (owners - firsts) * _ROOM
    if parts.count:
        is_part = units >= parts.device_count
        numbers = units[is_part] - parts.device_count - np.searchsorted(parts.owners, owners[is_part])
        places[is_part] += numbers + 1
    return places


def _names(names: list[str]) -> list[str]:
    """Words for names of nodes, with ranges for consecutive numbers."""
    found: list[str] = []
    numbered: dict[tuple[str, int], list[int]] = {}
    for name in names:
        prefix = name.rstrip(_DIGITS)
        digits = name[len(prefix) :]
        if not 1 <= len(digits) <= _MAX_DIGITS:
            found.append(name)
            continue
        # 07 and 7 are two nodes: numbers that begin with 0 have separate ranges for each length.
        width = len(digits) if digits[0] == "0" and digits != "0" else 0
        numbered.setdefault((prefix, width), []).append(int(digits))
    for (prefix, width), numbers in numbered.items():
        found += [f"{prefix}{run}" for run in _runs(sorted(numbers), width)]
    return found


def _devices(places: list[int]) -> list[str]:
    """Words for the units of one node, from their positions in the node."""
    whole = [place // _ROOM for place in places if place % _ROOM == 0]
    words = _runs(whole)
    parts = [place for place in sorted(places) if place % _ROOM]
    of_each = [
        (index, tuple(place % _ROOM - 1 for place in those)) for index, those in groupby(parts, lambda at: at // _ROOM)
    ]
    of_each.sort(key=lambda each: each[1])
    for numbers, those in groupby(of_each, lambda each: each[1]):
        words += [f"{device}/{part}" for device in _runs([index for index, _ in those]) for part in _runs(numbers)]
    return words


def _runs(numbers: Iterable[int], width: int = 0) -> list[str]:
    """Words for ascending numbers, consecutive ones as ``[3-7]``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [f"{low:0{width}}" if low == high else f"[{low:0{width}}-{high:0{width}}]" for low, high in runs]
