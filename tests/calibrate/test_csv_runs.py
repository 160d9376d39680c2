"""Runs as CSV: the forms that are read, what makes no difference, and what is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.calibrate.runs import Run, RunError, read_csv

#: A plain run of a minute.
HEAD = "time,usage,power,clock,temperature\n"
ROWS = [f"{second},{second % 50},{100 + second},{300 + second},{40 + second % 9}\n" for second in range(60)]


def read(head: str, rows: list[str]) -> Run:
    return read_csv(head + "".join(rows), "run.csv")[0]


def same(one: Run, other: Run) -> bool:
    """Whether two runs are equal, to the last digit."""
    equal = all(np.array_equal(numbers, other.numbers[name]) for name, numbers in one.numbers.items())
    return equal and one.kinds == other.kinds and np.array_equal(one.seconds, other.seconds)


def test_what_nvidia_smi_prints() -> None:
    """Date and time, units in the head and after the numbers, and a temperature that the board does not show."""
    head = "timestamp, name, utilization.gpu [%], power.draw [W], clocks.current.sm [MHz], temperature.gpu, "
    head += "temperature.memory, power.limit [W]\n"
    rows = [
        f"2026/01/31 23:59:{second:02}.250, NVIDIA L4, {second} %, {second}.25 W, 210 MHz, 31, [N/A], 72.00 W\n"
        for second in range(60)
    ]
    run, unused = read_csv(head + "".join(rows), "run.csv")
    assert unused == ("name",)
    assert "memory_temperature_celsius" not in run.numbers
    assert run.seconds[-1] == 59
    assert run.numbers["usage_ratio"][50] == 0.5
    assert run.numbers["power_watts"][7] == 7.25
    assert set(run.numbers["power_limit_watts"]) == {72.0}


@given(st.lists(st.integers(1, 700_000), min_size=60, max_size=60))
def test_units_make_no_difference(milliwatts: list[int]) -> None:
    """Watts or milliwatts, in the head or after the number: the same bits."""
    heads = {
        "power [W]": [f"{each / 1000}" for each in milliwatts], "power [mW]": [str(each) for each in milliwatts],
        "power": [f"{each} mW" for each in milliwatts], "power_watts": [f"{each / 1000}" for each in milliwatts],
    }  # fmt: skip
    one, *others = (
        read(f"time,usage,{title},clock,temperature\n", [f"{at},50,{text},900,40\n" for at, text in enumerate(texts)])
        for title, texts in heads.items()
    )
    assert all(same(one, other) for other in others)


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.permutations(range(5)))
def test_order_makes_no_difference(chance: random.Random, columns: list[int]) -> None:
    """Of columns, and of rows with the same time, which count as one with their mean."""
    rows = [row for second in range(60) for row in (f"{second},10,100.1,300,40", f"{second},20,200.3,300,41")]
    shuffled = [row for at in range(0, 120, 2) for row in chance.sample(rows[at : at + 2], 2)]
    plain = read(HEAD, [f"{row}\n" for row in rows])
    names = HEAD.strip().split(",")
    moved = [",".join(row.split(",")[column] for column in columns) + "\n" for row in shuffled]
    assert same(plain, read(",".join(names[column] for column in columns) + "\n", moved))
    assert plain.numbers["power_watts"][0] == pytest.approx(150.2)


def test_kinds_of_work_by_their_seconds() -> None:
    """As --work gives them, in any order."""
    run = read(HEAD, ROWS).with_work([(50, "memory"), (20, "tensor")])
    assert [run.kinds[second] for second in (0, 19, 20, 49, 50, 59)] == [
        "compute", "compute", "tensor", "tensor", "memory", "memory",
    ]  # fmt: skip


REFUSED = {
    "": "run.csv: the file is empty: its first line names the columns, as time [s], usage [%]",
    "time,usage\n": "run.csv:1: columns are missing (power_watts: power or power.draw",
    "time,power,power.draw\n": "run.csv:1:3: 'power.draw' is power_watts as 'power' is: leave one out",
    "time,power [hp]\n": "run.csv:1:2: no unit 'hp' of power_watts: there is w, mw, kw",
    HEAD + "0,1,2,3\n": "run.csv:2: 4 cells, and the first line has 5",
    HEAD + "0,1,x,3,4\n": "run.csv:2:3: power: 'x' is no number",
    HEAD + "0,1,nan,3,4\n": "run.csv:2:3: power: 'nan' is no number that a board shows",
    HEAD + "0,1,[N/A],3,4\n": "run.csv:2:3: power: '[N/A]' is no number",
    HEAD + "noon,1,2,3,4\n": "run.csv:2:1: 'noon' is no time: give seconds, or 2026/01/31 13:59:00.250",
    HEAD + "0,101,2,3,4\n": "run.csv:2: usage_ratio is 1.01, which is not within 0 to 1: check its unit",
    HEAD + "0,1,-2,3,4\n": "run.csv:2: power_watts is -2, which is not within 0 to 1e+06: check its unit",
    HEAD + "5,1,2,3,4\n3,1,2,3,4\n": "run.csv:3: the time goes back by 2 s: sort the samples by time",
    HEAD + "5,1,2,3,4\n6,1,2,3,4\n": "run.csv: 2 samples, not 60 to 20000: record longer",
    "index," + HEAD + "0,0,1,2,3,4\n1,0,1,2,3,4\n": "run.csv:3:1: another board, '1': give the rows of one, as nvidia",
    "work," + HEAD + "games,0,1,2,3,4\n": "run.csv:2:1: no work 'games': there is compute, tensor, memory",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_used(text: str) -> None:
    with pytest.raises(RunError) as found:
        read_csv(text, "run.csv")
    assert REFUSED[text] in str(found.value)


@pytest.mark.slow
def test_a_head_of_many_columns() -> None:
    """Each further column takes as long as the first: in square time this would take minutes."""
    with pytest.raises(RunError, match=r"run\.csv:2: 5 cells"):
        read(HEAD.strip() + "," * 400_000 + "\n", ROWS)


@pytest.mark.slow
def test_a_run_that_is_cut_anywhere() -> None:
    """It is a shorter run, or is refused."""
    text = HEAD + "".join(ROWS) + "60,1,2,3,4\n"
    for end in range(len(text)):
        try:
            assert len(read_csv(text[:end], "run.csv")[0].seconds) >= 60
        except RunError as error:
            assert str(error).startswith("run.csv")
