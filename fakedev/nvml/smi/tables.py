"""Tables of nvidia-smi: all boards, ``-L``, versions, ``dmon``, ``pmon``, ``topo -m``, ``nvlink -s``, ``c2c -s``,
``mig``.

Their lines are in ``catalog/nvidia-smi/tables.txt``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from fakedev import __version__
from fakedev.nvml.smi.boards import NOT_FOUND, Board, Failure, Lines, Snapshot, View, bad_argument, not_supported
from fakedev.nvml.smi.fields import BY_NAME, Column, blocks, cells, columns, has_kmd_version, shown

SIMULATED: Final = f"All boards and values are simulated by fakedev {__version__}. This is no program of NVIDIA."
_BLOCKS: Final = blocks("tables.txt")
_CELLS: Final[dict[str, str]] = dict(map(cells, _BLOCKS["cells"]))
_NAME: Final = 27
_PROCESS_NAME: Final = 38
_MOST_SLICES: Final = 64


class _Cells(dict[str, str]):
    """The values of a line by name; those that are not there are values of the catalog, or ``N/A``."""

    def __init__(self, board: Board, values: dict[str, str]) -> None:
        super().__init__(values)
        self._board = board

    def __missing__(self, name: str) -> str:
        found = shown(_CELLS[name])(self._board)
        return "N/A" if found is None else found


def filled(block: str, board: Board, **values: str) -> list[str]:
    """The lines of a block with the values of a board, instance or process."""
    return [line.format_map(_Cells(board, values)) for line in _BLOCKS[block]]


def heading(block: str) -> list[str]:
    """The lines of a block that has no cells."""
    return _BLOCKS[block]


def _of_driver(block: str, board: Board, **values: str) -> list[str]:
    return filled(f"{block} of kmd_drivers" if has_kmd_version(board.node) else block, board, **values)


def versions(snapshot: Snapshot) -> list[str]:
    driver = snapshot.node.text("driver_version") or "N/A"
    nvml = driver.rsplit(".", 1)[0] if driver.count(".") > 1 else driver
    node = Board(snapshot.node, 0, snapshot.node, snapshot.slot, [], [], [], [])
    return _of_driver("version", node, nvml=nvml, simulated=SIMULATED)


def listed(boards: Sequence[Board]) -> Iterator[str]:
    """What ``-L`` prints: the boards, with their instances."""
    for board in boards:
        yield from filled("list", board)
        for part in board.of_parts():
            yield from filled("list of instances", part)


def table(boards: Sequence[Board]) -> Iterator[str]:
    (title,) = _of_driver("title", boards[0])
    yield from filled("table", boards[0], title=title)
    for board in boards:
        name, cap = board.view.text("name"), shown("enforced.power.limit")(board)
        errors = "Off" if board.view.number("ecc_mode") == 0 else shown("ecc.errors.uncorrected.volatile.total")(board)
        yield from filled(
            "board", board,
            name=name if len(name) <= _NAME else f"{name[:_NAME - 3]}...",
            errors="On" if board.is_divided else errors or "N/A",
            cap="N/A" if cap is None else f"{float(cap):.0f}W",
        )  # fmt: skip
    instances = [line for board in boards for part in board.of_parts() for line in filled("instance", part)]
    if instances:
        yield from (*_BLOCKS["instances"], *instances)
    yield from _BLOCKS["processes"]
    processes = [process for board in boards for process in board.of_processes()]
    for process in processes:
        name = process.process.text("name") if process.process else ""
        name = name if len(name) <= _PROCESS_NAME else f"...{name[3 - _PROCESS_NAME:]}"
        yield from filled("process", process, process=name)
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
                (pid, kind), name = filled("process of pmon", row), row.process.text("name")
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
        yield from filled("board of topo", board, pairs=pairs)
    yield from _BLOCKS["legend of topo"]


def _connection(board: Board, other: Board) -> str:
    if board.place == other.place:
        return " X "
    up = [link for link in board.links if link.number("up") == 1]
    direct = sum(link.number("remote_board") == other.place for link in up)
    through = min(
        sum(link.number("up") == 1 and link.number("switch_number") is not None for link in link_end.links)
        for link_end in (board, other)
    )
    if direct or through:
        return f"NV{direct or through}"
    switch = board.view.number("pcie_switch")
    if switch is not None and switch == other.view.number("pcie_switch"):
        return "PXB"
    return "NODE" if board.view.number("numa_node") == other.view.number("numa_node") else "SYS"


def link_states(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``nvlink -s``: the speed of each link, in one direction."""
    for board in boards:
        yield from filled("list", board)
        speed = board.view.count("link_bandwidth") / 1e9
        for link in board.links:
            state = f"{speed:.3f} GB/s" if link.number("up") == 1 else "<inactive>"
            yield f"\t Link {link.count('number')}: {state}"


#: The speed of a link to a Grace CPU, which the library has, too (native/fields.c).
_CHIP_LINK_SPEED: Final = "44.712 GB/s"


def chip_links(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``c2c -s``: the speed of each link to a Grace CPU."""
    linked = [board for board in boards if board.view.number("c2c_mode") == 1]
    if not linked:
        yield "No Devices support C2C."
    for board in linked:
        yield from filled("list", board)
        links = board.view.count("c2c_links")
        yield from (f"\t C2C Link {number}: {_CHIP_LINK_SPEED}" for number in range(links))


#: The engines of a kind of instance: the name in the lines, and the field.
ENGINES: Final = (
    ("processors", "multiprocessors"), ("copies", "copy_engines"), ("decoders", "decoders"), ("encoders", "encoders"),
    ("jpegs", "jpeg_engines"), ("flows", "ofa_engines"),
)  # fmt: skip


def _places(profile: View, taken: set[int]) -> int:
    """How many more instances of a kind the memory slices that are not taken have room for."""
    begins, size = profile.count("begins"), profile.count("memory_slices")
    return sum(begins >> begin & 1 and not taken & {*range(begin, begin + size)} for begin in range(_MOST_SLICES))


def gpu_instance_profiles(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``mig -lgip``: how many instances of each kind a board can have, and could have beside the present.

    :raises Failure: without MIG mode.
    """
    in_mig_mode = divided(boards)
    yield from _BLOCKS["profiles"]
    for board in in_mig_mode:
        taken = {part.count("begin") + offset for part in board.parts for offset in range(part.count("memory_slices"))}
        names = [part.text("profile") for part in board.parts]
        left = board.view.count("max_part_count") - sum(max(1, part.count("slices")) for part in board.parts)
        for profile in board.profiles:
            name, total = profile.text("name"), profile.count("most")
            counts = _places(profile, taken), total - names.count(name), left // max(1, profile.count("slices"))
            free = max(0, min(counts))
            found = {engine: profile.number(field) for engine, field in ENGINES}
            engines = {engine: "N/A" if number is None else str(number) for engine, number in found.items()}
            yield from filled(
                "profile", board, name=f"MIG {name}", number=str(profile.count("number")), counts=f"{free}/{total}",
                memory=f"{profile.count('memory') / 2**30:.2f}", **engines,
            )  # fmt: skip


def gpu_instances(boards: Sequence[Board]) -> list[str]:
    """The lines of ``mig -lgi``.

    :raises Failure: without MIG mode, and without instances.
    """
    return _instances("GPU instance", boards, lambda part: (
        part.count("number"), f"{part.count('begin')}:{part.count('memory_slices')}"
    ))  # fmt: skip


def compute_instances(boards: Sequence[Board]) -> list[str]:
    """The lines of ``mig -lci``: each GPU instance has one compute instance, which is all of it.

    :raises Failure: without MIG mode, and without instances.
    """
    # Numbers of these profiles count from the smallest: 1, 2, 3, 4 and all slices.
    return _instances("compute instance", boards, lambda part: (min(_slices(part), 5) - 1, f"0:{_slices(part)}"))


def _slices(part: View) -> int:
    return max(1, part.count("slices"))


def _instances(kind: str, boards: Sequence[Board], numbers: Callable[[View], tuple[int, str]]) -> list[str]:
    """A box with a line for each instance.

    :param numbers: the number of an instance's profile, and its placement.
    """
    head, found = _BLOCKS[f"{kind}s"], []
    width = len(head[0]) - 2
    for board in divided(boards):
        for part in board.parts:
            if kind == "compute instance" and part.number("computes") == 0:
                continue
            number, placement = numbers(part)
            (line,) = filled(kind, board._replace(part=part), number=str(number), placement=placement)
            found += [f"|{line[:width]:<{width}}|", head[0]]
    if not found:
        raise Failure(NOT_FOUND, f"No {kind}s found: Not Found")
    return [*head, *found]


def divided(boards: Sequence[Board]) -> list[Board]:
    """Those in MIG mode.

    :raises Failure: when there are none.
    """
    found = [board for board in boards if board.is_divided]
    if not found:
        raise Failure(NOT_FOUND, "No MIG-enabled devices found.")
    return found
