"""What the simulated nvidia-smi refuses and cannot do, in the words and with the exit codes of the real one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from fakedev.nvml.records import BOARD, DEAD_SECONDS, HEAD, NODE, VERSION
from fakedev.nvml.smi.options import NOT_SIMULATED
from tests.support.application import MemoryApplication, application
from tests.support.driver.nvidia_smi import Command
from tests.support.driver.nvml import boards


def test_wrong_arguments(smi: Command, tmp_path: Path) -> None:
    """Words and exit codes; what the simulation does not have ends with 3."""
    for given, words in (
        (("--query-gpu=index,wrong", "--format=csv"), 'Field "wrong" is not a valid field to query.'),
        (("--query-compute-apps=index", "--format=csv"), 'Field "index" is not a valid field to query.'),
        (("--query-gpu=index",), "csv is missing"),
        (("--query-gpu=index", "--format=noheader"), "csv is missing"),
        (("--query-gpu=index", "--format=csv,wrong"), "unknown: wrong"),
        (("--wrong",), "Option --wrong is not recognized"),
        (("wrong",), "Option wrong is not recognized"),
        (("-L", "drain"), "Option drain is not recognized"),
        (("-L=3",), "Option -L=3 is not recognized"),
        (("-i",), "Option -i needs a value"),
        (("-L", "--query-gpu=index", "--format=csv"), "Invalid combination of input arguments"),
        (("-x",), "Invalid combination of input arguments"),
        (("-q", "-x", "-d", "ECC"), "Invalid combination of input arguments"),
        (("-q", "-d", "ECC,WRONG"), "Unknown section WRONG; there are ACCOUNTING, "),
        (("dmon", "-s", "x"), "-s takes letters of"),
        (("pmon", "-c", "0"), "--count needs a positive whole number"),
        (("dmon", "--query"), "Option --query is not recognized"),
        (("-lms", "0"), "positive whole number"),
        (("-l", "9" * 20), "positive whole number"),
        (("--loop=1.5",), "positive whole number"),
        (("-L", "-f", str(tmp_path / "no" / "file")), "no such file or folder"),
    ):
        assert words in smi(*given), given
        assert smi.code == 2, given
    assert {"drain", "-r", "--gpu-reset"} < NOT_SIMULATED
    for word in NOT_SIMULATED:
        assert smi(word, "0") == f"{word}: not supported by the simulation\n"
        assert smi.code == 3


def test_no_driver(file: Path, tmp_path: Path) -> None:
    """9 without a file, with another one, from another version, of a dead or ended service, for an unknown node."""
    smi = Command(file)

    def why() -> str:
        assert smi().startswith("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
        assert smi.code == 9
        return smi.errors

    assert "there is no file" in why()
    for content in (b"", b"FAKENVML", b"x" * 5000, b"FAKENVML" + b"\xff" * 5000):
        file.write_bytes(content)
        assert str(file) in why()
    file.unlink()
    with application(boards(file).replace("nodes: [dgx-0]", "nodes: 7")):
        assert "the file has 7 nodes: set FAKEDEV_NODE to one of dgx-0, dgx-1, dgx-2, dgx-3, dgx-4, ..." in why()
        smi.environ["FAKEDEV_NODE"] = "dgx-9"
        assert "there is no node dgx-9" in why()
        smi.environ["FAKEDEV_NODE"] = "dgx-6"
        assert len(smi("-L").splitlines()) == 8
        whole = file.read_bytes()
        smi.environ["FAKEDEV_NVML_FILE"] = str(tmp_path / "copy")
        wrong = {"layout_version": VERSION + 1, "board_count": -1, "state": 2, "heartbeat": 0, "file_bytes": 1}
        for field, number in wrong.items():
            changed = bytearray(whole)
            struct.pack_into("=q", changed, HEAD.offsets[field], number)
            (tmp_path / "copy").write_bytes(changed)
            assert "copy" in why()
        (tmp_path / "copy").write_bytes(whole[:-1])
        assert "copy" in why()
        head = HEAD.unpack(whole)
        slot = int(head["first_slot"]) + int(head["published"]) % 2 * int(head["slot_bytes"])
        nodes, boards_ = slot + int(head["nodes_in_slot"]) + 6 * NODE.size, slot + int(head["boards_in_slot"])
        for place in (
            *(nodes + NODE.offsets[name] for name in ("first_board", "board_count")),
            *(boards_ + 48 * BOARD.size + BOARD.offsets[name] for name in ("first_part", "part_count", "link_count")),
        ):
            for number in (2**62, -5):
                changed = bytearray(whole)
                struct.pack_into("=q", changed, place, number)
                (tmp_path / "copy").write_bytes(changed)
                assert "damaged" in why()
        assert DEAD_SECONDS == 10


def test_lost_board(app: MemoryApplication, smi: Command) -> None:
    """The others are shown, one line says which is lost, and the exit code is 15 until it is back."""
    app.tick(2)
    fault = app.connect().say("fault lost devices=dgx-0/3")[0].split()[1]
    app.tick(1)
    assert [row[0] for row in smi.rows("index")] == ["0", "1", "2", "4", "5", "6", "7"]
    assert smi.code == 15
    assert smi.errors.startswith("Unable to determine the device handle for GPU3: 00000000:61:00.0: GPU is lost.")
    assert smi("-i", "3") == ""
    assert smi.code == 15
    assert len(smi("-L", "-i", "4").splitlines()) == 1
    assert (smi.code, smi.errors) == (0, "")
    app.connect().say(f"clear {fault}")
    app.tick(1)
    assert (len(smi("-L").splitlines()), smi.code) == (8, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["-pl", "300"], 4, "Insufficient Permissions"),
        (["-lgc", "900"], 4, "does not have permission to change clocks for GPU 00000000:1B:00.0"),
        (["-rgc"], 4, "does not have permission to change clocks"),
        (["-pm", "0"], 4, "Unable to set persistence mode for GPU 00000000:1B:00.0: Insufficient Permissions"),
        (["-pm", "1"], 0, "Persistence mode is already Enabled for GPU 00000000:1B:00.0."),
        (["-pl", "9000"], 2, "should be between 200.00 W and 700.00 W for GPU 00000000:1B:00.0"),
        (["-pl", "much"], 2, "needs a number of watts, not 'much'"),
        (["-pl", "."], 2, "needs a number of watts"),
        (["-lgc", "900,600"], 2, "MIN up to MAX"), (["-lgc", "1,2,3"], 2, "needs MIN,MAX or one number in MHz"),
        (["-pm", "2"], 2, "needs 0 or 1, not '2'"), (["-pl"], 2, "needs a value"),
        (["-pl", "300", "-rgc"], 2, "Invalid combination"), (["-pl", "300", "-L"], 2, "Invalid combination"),
    ],
)  # fmt: skip
def test_settings_that_are_refused(smi: Command, arguments: list[str], code: int, text: str) -> None:
    """Wrong values, and all that only users of the configuration may set; a mode that is so already is no change."""
    printed = smi(*arguments)
    assert text in printed
    assert smi.code == code
    if code == 4 and "-pm" not in arguments:
        assert "nvml.setters" in smi.errors
