"""The changes of ``nvidia-smi mig`` and ``-mig``, and the lists of placements and of kinds of compute instances.

A change is a step for the service (:mod:`fakedev.nvml.divisions`), which answers at the end of the next tick. The words
are those of transcripts that users post.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fakedev.nvml.smi.boards import NO_PERMISSION, NOT_FOUND, Board, Failure, Rows, View, bad_argument, not_supported
from fakedev.nvml.smi.options import NO_SETTER, asked
from fakedev.nvml.smi.tables import ENGINES, divided, filled, heading

#: The longest wait for a tick.
_TICK_SECONDS: Final = 20.0
_TIMEOUT: Final = 10
#: NVML's numbers of results in the words of the command; they are its exit codes, too.
_WORDS: Final = {
    2: "Invalid Argument", 3: "Not Supported", NO_PERMISSION: "Insufficient Permissions", NOT_FOUND: "Not Found",
    9: "Driver Not Loaded", _TIMEOUT: "Timeout", 19: "In use by another client", 23: "Insufficient Resources",
}  # fmt: skip
#: Compute slices of the kinds of compute instances, by number.
_KINDS: Final = (1, 2, 3, 4, 7)


def _kind(slices: int) -> int:
    """The number of the kind of compute instance that is all of a GPU instance."""
    return sum(kind < slices for kind in _KINDS[:-1])


def _results(board: Board, steps: Sequence[str]) -> Iterator[tuple[int, int]]:
    """What the service says of steps, up to the first that is not possible: NVML's number, and a GPU instance."""
    if not steps:
        return
    answer = asked(board, f"mig {board.node.text('name')} {board.view.count('index')} {' '.join(steps)}", _TICK_SECONDS)
    for word in answer.split():
        result, _, instance = word.partition(":")
        yield int(result), int(instance or 0)


def _check(result: int, failed: str, summary: str = "") -> None:
    """Raise a Failure for each result but 0."""
    if result:
        words = _WORDS.get(result, "Unknown Error")
        late = "no tick of the fleet came in time" if result == _TIMEOUT else ""
        text = f"{failed}: {words}" + (f"\n{summary}: {words}" if summary else "")
        raise Failure(result if result in _WORDS else 255, text, NO_SETTER if result == NO_PERMISSION else late)


def switched(value: str, board: Board) -> str:
    """Set MIG mode (``-mig``)."""
    wanted = {"0": 0, "disabled": 0, "1": 1, "enabled": 1}.get(value.casefold())
    if wanted is None:
        raise bad_argument(f"ERROR: --multi-instance-gpu needs 0 or 1, not {value[:100]!r}.\n")
    address, verb = board.view.text("pci_bus_id"), ("disable", "enable")[wanted]
    if board.view.number("mig_mode") != wanted:
        for result, _ in _results(board, [f"mode={wanted}"]):
            _check(result, f"Unable to {verb} MIG Mode for GPU {address}")
    return f"{verb.capitalize()}d MIG Mode for GPU {address}"


def _profile(board: Board, word: str) -> tuple[View, str]:
    """The profile that a word names by number or name, and the place that may follow after a colon."""
    name, _, begin = word.strip().partition(":")
    name = name.casefold().removeprefix("mig ")
    for profile in board.profiles:
        if name in (str(profile.count("number")), profile.text("name").casefold()) and (not begin or begin.isdecimal()):
            return profile, f"@{begin}" if begin else ""
    raise bad_argument(f"ERROR: GPU {board.number} has no GPU instance profile {word[:50]!r}.\n")


def _created(given: Mapping[str, str], board: Board) -> Iterator[str]:
    chosen = [_profile(board, word) for word in given["create-gpu-instance"].split(",")]
    has_compute, gpu = "default-compute-instance" in given, f"GPU {board.number:>2}"
    steps = [f"{'both' if has_compute else 'gpu'}={profile.count('number')}{begin}" for profile, begin in chosen]
    for (profile, _), (result, instance) in zip(chosen, _results(board, steps), strict=False):
        number = profile.count("number")
        failed = f"Unable to create a GPU instance on {gpu} using profile {number}"
        _check(result, failed, "Failed to create GPU instances")
        name = f"MIG {profile.text('name')} (ID {number:>2})"
        yield f"Successfully created GPU instance ID {instance:>2} on {gpu} using profile {name}"
        if has_compute:
            yield _compute_created(board, instance, profile.text("name"), profile.count("slices"))


def _compute_created(board: Board, instance: int, profile: str, slices: int) -> str:
    return (
        f"Successfully created compute instance ID  0 on GPU {board.number:>2} GPU instance ID {instance:>2} "
        f"using profile MIG {profile} (ID {_kind(slices):>2})"
    )


def _chosen(given: Mapping[str, str], board: Board, *, computes: bool | None = None) -> list[View]:
    """The GPU instances that ``-gi`` names, or all.

    :param computes: only those with a compute instance, or without one; None: both.
    """
    wanted = given["gpu-instance-id"].split(",") if "gpu-instance-id" in given else None
    return [
        part for part in board.parts
        if (wanted is None or str(part.count("gpu_instance")) in wanted)
        and (computes is None or (part.number("computes") != 0) == computes)
    ]  # fmt: skip


def _compute_instances_created(given: Mapping[str, str], board: Board) -> Iterator[str]:
    parts = _chosen(given, board, computes=None if "gpu-instance-id" in given else False)
    for part in parts:
        slices = part.count("slices")
        for word in filter(None, given["create-compute-instance"].split(",")):
            names = (str(_kind(slices)), part.text("profile").casefold())
            if word.strip().casefold().removeprefix("mig ") not in names:
                raise not_supported(f"mig -cci {word[:50]}: a compute instance that is not all of its GPU instance")
    steps = [f"compute={part.count('gpu_instance')}" for part in parts]
    for part, (result, instance) in zip(parts, _results(board, steps), strict=False):
        at = f"GPU {board.number:>2} GPU instance ID {part.count('gpu_instance'):>2}"
        failed = f"Unable to create a compute instance on {at} using profile {_kind(part.count('slices'))}"
        _check(result, failed, "Failed to create compute instances")
        yield _compute_created(board, instance, part.text("profile"), part.count("slices"))


def _destroyed(given: Mapping[str, str], board: Board) -> Iterator[str]:
    parts = _chosen(given, board)
    steps = [f"no-gpu={part.count('gpu_instance')}" for part in parts]
    for part, (result, _) in zip(parts, _results(board, steps), strict=False):
        what = f"GPU instance ID {part.count('gpu_instance'):>2} from GPU {board.number:>2}"
        _check(result, f"Unable to destroy {what}", "Failed to destroy GPU instances")
        yield f"Successfully destroyed {what}"


def _compute_instances_destroyed(given: Mapping[str, str], board: Board) -> Iterator[str]:
    parts = _chosen(given, board, computes=True) if given.get("compute-instance-id", "0") == "0" else []
    steps = [f"no-compute={part.count('gpu_instance')}" for part in parts]
    for part, (result, _) in zip(parts, _results(board, steps), strict=False):
        at = f"from GPU {board.number:>2} GPU instance ID {part.count('gpu_instance'):>2}"
        _check(result, f"Unable to destroy compute instance ID  0 {at}", "Failed to destroy compute instances")
        yield f"Successfully destroyed compute instance ID  0 {at}"


_CHANGES: Final = {
    "create-gpu-instance": _created, "create-compute-instance": _compute_instances_created,
    "destroy-gpu-instance": _destroyed, "destroy-compute-instance": _compute_instances_destroyed,
}  # fmt: skip
#: The names of the changes.
CHANGES: Final = tuple(_CHANGES)


def changes(name: str, given: Mapping[str, str]) -> Rows:
    """What makes a change, board by board, and prints what was done."""

    def rows(boards: Sequence[Board]) -> Iterator[str]:
        is_done = False
        for board in divided(boards):
            for line in _CHANGES[name](given, board):
                is_done = True
                yield line
        if not is_done:
            kind = "compute" if name == "destroy-compute-instance" else "GPU"
            raise Failure(NOT_FOUND, f"No {kind} instances found: Not Found")

    return rows


def placements(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``mig -lgipp``: the memory slices at which each kind of instance may begin."""
    for board in divided(boards):
        for profile in board.profiles:
            begins = [str(slice_) for slice_ in range(64) if profile.count("begins") >> slice_ & 1]
            word = "Placement :" if len(begins) == 1 else "Placements:"
            size = profile.count("memory_slices")
            number = profile.count("number")
            yield f"GPU {board.number:>2} Profile ID {number:>2} {word} {{{','.join(begins)}}}:{size}"


def compute_profiles(given: Mapping[str, str]) -> Rows:
    """What prints ``mig -lcip``: the kinds of compute instances of each GPU instance; * marks the one that is all."""

    def rows(boards: Sequence[Board]) -> Iterator[str]:
        yield from heading("compute profiles")
        for board in divided(boards):
            for part in _chosen(given, board):
                yield from _compute_profiles(board, part)

    return rows


def _compute_profiles(board: Board, part: View) -> Iterator[str]:
    slices, profile = max(1, part.count("slices")), part.text("profile")
    for number, size in enumerate(_KINDS):
        if size <= slices:
            total = slices // size
            engines = {name: "N/A" if (value := part.number(field)) is None else str(value) for name, field in ENGINES}
            if (processors := part.number("multiprocessors")) is not None:
                engines["processors"] = str(processors * size // slices)
            yield from filled(
                "compute profile", board._replace(part=part), **engines,
                name=f"MIG {profile}" if size == slices else f"MIG {size}c.{profile}",
                number=f"{number}{'*' if size == slices else ' '}",
                counts=f"{0 if part.number('computes') else total}/{total}",
            )  # fmt: skip
