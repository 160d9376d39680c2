"""Tables of nvidia-smi: all boards, ``-L``, versions, ``dmon``, ``pmon``, ``topo -m``, ``nvlink -s``, ``mig``.

Their lines are in ``catalog/nvidia-smi/tables.txt``. Numbers of profiles: NVIDIA's MIG User Guide, tables of profiles
by board; on all of them they follow from the share of the memory. An instance has the number of its place in the tree
of halves, as in :mod:`fakedev.fleet.parts.mig`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from fakedev import __version__
from fakedev.nvml.smi.boards import NOT_FOUND, Board, Failure, Lines, Snapshot, View, bad_argument, not_supported
from fakedev.nvml.smi.fields import BY_NAME, Column, blocks, cells, columns, has_kmd_version, shown

SIMULATED: Final = f"All boards and values are simulated by fakedev {__version__}. This is no program of NVIDIA."
_BLOCKS: Final = blocks("tables.txt")
_CELLS: Final[dict[str, str]] = dict(map(cells, _BLOCKS["cells"]))
_NAME: Final = 27
_PROCESS_NAME: Final = 38


class _Cells(dict[str, str]):
    """The values of a line by name; those that are not there are values of the catalog, or ``N/A``."""

    def __init__(self, board: Board, values: dict[str, str]) -> None:
        super().__init__(values)
        self._board = board

    def __missing__(self, name: str) -> str:
        found = shown(_CELLS[name])(self._board)
        return "N/A" if found is None else found


def _filled(block: str, board: Board, **values: str) -> list[str]:
    """The lines of a block with the values of a board, instance or process."""
    return [line.format_map(_Cells(board, values)) for line in _BLOCKS[block]]


def _of_driver(block: str, board: Board, **values: str) -> list[str]:
    """The lines of a block for the driver of a board."""
    return _filled(f"{block} of kmd_drivers" if has_kmd_version(board.node) else block, board, **values)


def versions(snapshot: Snapshot) -> list[str]:
    """What ``--version`` prints."""
    driver = snapshot.node.text("driver_version") or "N/A"
    nvml = driver.rsplit(".", 1)[0] if driver.count(".") > 1 else driver
    node = Board(snapshot.node, 0, snapshot.node, snapshot.slot, [], [], [])
    return _of_driver("version", node, nvml=nvml, simulated=SIMULATED)


def listed(boards: Sequence[Board]) -> Iterator[str]:
    """What ``-L`` prints: the boards, with their instances."""
    for board in boards:
        yield from _filled("list", board)
        for part in board.of_parts():
            yield from _filled("list of instances", part)


def table(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of the table."""
    (title,) = _of_driver("title", boards[0])
    yield from _filled("table", boards[0], title=title)
    for board in boards:
        name, cap = board.view.text("name"), shown("enforced.power.limit")(board)
        errors = "Off" if board.view.number("ecc_mode") == 0 else shown("ecc.errors.uncorrected.volatile.total")(board)
        yield from _filled(
            "board", board,
            name=name if len(name) <= _NAME else f"{name[:_NAME - 3]}...",
            errors="On" if board.is_divided else errors or "N/A",
            cap="N/A" if cap is None else f"{float(cap):.0f}W",
        )  # fmt: skip
    instances = [line for board in boards for part in board.of_parts() for line in _filled("instance", part)]
    if instances:
        yield from (*_BLOCKS["instances"], *instances)
    yield from _BLOCKS["processes"]
    processes = [process for board in boards for process in board.of_processes()]
    for process in processes:
        name = process.process.text("name") if process.process else ""
        name = name if len(name) <= _PROCESS_NAME else f"...{name[3 - _PROCESS_NAME:]}"
        yield from _filled("process", process, process=name)
    yield from _BLOCKS["end of processes" if processes else "no processes"]


def _monitor(name: str, groups: str) -> list[Column]:
    """The columns of ``dmon`` or ``pmon``.

    :raises Failure: for an unknown group.
    """
    found = list(columns(name, BY_NAME))
    known = dict.fromkeys(column.doc for column in found)
    if not groups or set(groups) - set(known):
        raise bad_argument(f"ERROR: -s takes letters of {''.join(known)}, not {groups!r}.\n")
    # pmon has its columns in one order, and once.
    order = groups if name == "dmon" else [group for group in known if group in groups]
    return [column for group in order for column in found if column.doc == group]


def _right(texts: Iterable[str | None]) -> str:
    return "".join(f"{text or '-':>7}" for text in texts)


def board_monitor(groups: str) -> Lines:
    """What prints ``dmon``: a line for each board.

    :raises Failure: for an unknown group, and for violations.
    """
    if "v" in groups:
        raise not_supported("dmon -s v")
    chosen = _monitor("dmon", groups)
    titles = (f"# gpu{_right(column.name for column in chosen)} ", f"# Idx{_right(column.unit for column in chosen)} ")

    def rows(boards: Sequence[Board]) -> Iterator[str]:
        for board in boards:
            yield f"{board.number:>5}{_right(column.read(board) for column in chosen)} "

    return titles, rows


def process_monitor(groups: str) -> Lines:
    """What prints ``pmon``: a line for each process, and one for a board without any.

    :raises Failure: for an unknown group.
    """
    chosen = _monitor("pmon", groups)

    def rows(boards: Sequence[Board]) -> Iterator[str]:
        for row in (row for board in boards for row in board.of_processes() or [board]):
            pid, kind, name = "-", "-", "-"
            if row.process is not None:
                (pid, kind), name = _filled("process of pmon", row), row.process.text("name")
            values = _right(column.read(row) for column in chosen)
            yield f"{row.number:>5}{pid:>11}{kind:>6}{values}    {name:<15.15}"

    return (
        f"# gpu         pid   type{_right(column.name for column in chosen)}    command ",
        f"# Idx           #    C/G{_right(column.unit for column in chosen)}    name ",
    ), rows


def matrix(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``topo -m``: which connection each pair of boards has."""
    yield "\t" + "".join(f"GPU{board.number}\t" for board in boards) + "CPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    for board in boards:
        pairs = "".join(f"{_connection(board, other)}\t" for other in boards)
        yield from _filled("board of topo", board, pairs=pairs)
    yield from _BLOCKS["legend of topo"]


def _connection(board: Board, other: Board) -> str:
    if board.place == other.place:
        return " X "
    up = [link for link in board.links if link.number("up") == 1]
    direct = sum(link.number("remote_board") == other.place for link in up)
    through = min(
        sum(link.number("up") == 1 and link.number("switch_number") is not None for link in each.links)
        for each in (board, other)
    )
    if direct or through:
        return f"NV{direct or through}"
    return "NODE" if board.view.number("numa_node") == other.view.number("numa_node") else "SYS"


def link_states(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``nvlink -s``: the speed of each link, in one direction."""
    for board in boards:
        yield from _filled("list", board)
        speed = board.view.count("link_bandwidth") / 1e9
        for link in board.links:
            state = f"{speed:.3f} GB/s" if link.number("up") == 1 else "<inactive>"
            yield f"\t Link {link.count('number')}: {state}"


#: Profiles by their share of the board's memory, as its divisor: a whole board, a half, a quarter, an eighth.
_PROFILES: Final = {1: 0, 2: 5, 4: 14, 8: 19}
#: Profiles with fewer compute slices than others of the same share; the second is on boards with eight memory slices.
_FEWER_SLICES: Final = {(2, 3): 9, (4, 1): 15}
_ALL_MEDIA_ENGINES: Final = 20


def _memory_slices(board: Board) -> int:
    """The memory slices of a board, a power of two."""
    return 1 << max(0, board.view.count("max_part_count") - 1).bit_length()


def _number_of(name: str, slices: int, share: int, memory_slices: int) -> int:
    """The number of a profile.

    :param share: of the board's memory, as its divisor.
    """
    if name.endswith("+me"):
        return _ALL_MEDIA_ENGINES
    fewer = _FEWER_SLICES.get((share, slices)) if memory_slices == 8 or share == 2 else None
    return fewer or _PROFILES.get(share, 0)


_ENGINES: Final = ("processors", "copies", "decoders", "encoders", "jpegs", "flows")


class _Place(NamedTuple):
    start: int
    size: int
    profile: int


def _place_of(board: Board, part: View) -> _Place:
    """Where an instance is among the memory slices of its board."""
    memory_slices = _memory_slices(board)
    number, share = part.count("gpu_instance") + 1, 1
    while number >= 2 * share and share < memory_slices:
        share *= 2
    size = memory_slices // share
    profile = _number_of(part.text("profile"), part.count("slices"), share, memory_slices)
    return _Place((number - share) * size, size, profile)


def gpu_instance_profiles(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``mig -lgip``: how many instances of each kind a board can have, and could have beside the present.

    :raises Failure: without MIG mode.
    """
    from fakedev.fleet.spec.device_types import (  # noqa: PLC0415 - needed only here, and takes a fifth of the start
        attributes_of,
        profiles_from_text,
    )

    divided = _divided(boards)
    yield from _BLOCKS["profiles"]
    for board in divided:
        places = [_place_of(board, part) for part in board.parts]
        taken = [range(place.start, place.start + place.size) for place in places]
        names = [part.text("profile") for part in board.parts]
        slices, memory_slices = board.view.count("max_part_count"), _memory_slices(board)
        left = slices - sum(max(1, part.count("slices")) for part in board.parts)
        for each in profiles_from_text(board.view.text("mig_profiles")):
            free, total = each.count_beside(left, taken, names.count(each.name)), each.count_beside(slices, ())
            number = _number_of(each.name, each.slices, memory_slices // each.memory_slices, memory_slices)
            known = attributes_of({"pci_device_id": f"0x{board.view.count('pci_device_id') >> 16:04x}"}, each.name)
            engines = dict(zip(_ENGINES, map(str, known or ["N/A"] * 6), strict=True))
            yield from _filled(
                "profile", board, name=f"MIG {each.name}", number=str(number), counts=f"{free}/{total}",
                memory=f"{each.memory_bytes / 2**30:.2f}", **engines,
            )  # fmt: skip


def gpu_instances(boards: Sequence[Board]) -> list[str]:
    """The lines of ``mig -lgi``.

    :raises Failure: without MIG mode, and without instances.
    """
    return _instances("GPU instance", boards, lambda slices, place: (place.profile, f"{place.start}:{place.size}"))


def compute_instances(boards: Sequence[Board]) -> list[str]:
    """The lines of ``mig -lci``: each GPU instance has one compute instance, which is all of it.

    :raises Failure: without MIG mode, and without instances.
    """
    # Numbers of these profiles count from the smallest: 1, 2, 3, 4 and all slices.
    return _instances("compute instance", boards, lambda slices, place: (min(slices, 5) - 1, f"0:{slices}"))


def _instances(kind: str, boards: Sequence[Board], numbers: Callable[[int, _Place], tuple[int, str]]) -> list[str]:
    """A box with a line for each instance.

    :param numbers: the number of an instance's profile, and its placement.
    """
    head, found = _BLOCKS[f"{kind}s"], []
    width = len(head[0]) - 2
    for row, part in ((row, row.part) for board in _divided(boards) for row in board.of_parts() if row.part):
        number, placement = numbers(max(1, part.count("slices")), _place_of(row, part))
        (line,) = _filled(kind, row, number=str(number), placement=placement)
        found.append(f"|{line[:width]:<{width}}|")
    if not found:
        raise Failure(NOT_FOUND, f"No {kind}s found: Not Found")
    return [*head, *found, head[0]]


def _divided(boards: Sequence[Board]) -> list[Board]:
    """Those in MIG mode.

    :raises Failure: when there are none.
    """
    divided = [board for board in boards if board.is_divided]
    if not divided:
        raise Failure(NOT_FOUND, "No MIG-enabled devices found.")
    return divided
