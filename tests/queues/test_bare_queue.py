"""Bare objects of the queue ports: what the original's programs send and read, to the byte."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.lines.grammar import ProtocolError
from fakedev.queues.bare import (
    MAX_BARE_BYTES,
    BareRequest,
    BareResult,
    BareWork,
    encode_bare_answer,
    encode_bare_ask,
    encode_bare_no_work,
    encode_bare_request,
    encode_bare_result,
    encode_bare_work,
    fits_bare_work,
    go_number,
    parse_bare_ask,
    parse_bare_request,
    parse_bare_result,
    parse_bare_work,
)
from tests.support.paths import ORIGINALS

WIRE = ORIGINALS / "WIRE.md"

REQUEST = b'{\n\t"Queue": "sleep",\n\t"Args": [\n\t\t"0.1"\n\t],\n\t"Limit": 2.5\n}'
ASK = b'{\n\t"Queue": "sleep"\n}'
WORK = b'{\n\t"Error": "",\n\t"Args": [\n\t\t"0.1"\n\t],\n\t"Limit": 2.5,\n\t"Empty": false\n}'
EMPTY = b'{\n\t"Error": "Queue \'sleep\' is empty",\n\t"Args": null,\n\t"Limit": 0,\n\t"Empty": true\n}'
UNKNOWN = b'{\n\t"Error": "Unknown \'nope\' queue",\n\t"Args": null,\n\t"Limit": 0,\n\t"Empty": false\n}'
RESULT = (
    b'{\n\t"Pod": "vm",\n\t"Node": "vm",\n\t"Device": ".",\n\t"Error": "",\n\t"Timeout": 0,\n'
    b'\t"Runtime": 0.10034271,\n\t"Retcode": 0\n}'
)
ANSWER = RESULT.replace(b'\t"Retcode"', b'\t"Waittime": 0.201675995,\n\t"Retcode"')
REFUSED = (
    b'{\n\t"Pod": "",\n\t"Node": "",\n\t"Device": "",\n\t"Error": "Unknown \'nope\' queue",\n\t"Timeout": 0,\n'
    b'\t"Runtime": 0,\n\t"Waittime": 0,\n\t"Retcode": 1\n}'
)
CAPTURED = {
    "tester-client sends": REQUEST,
    "tester-backend sends (asks for work)": ASK,
    "tester-frontend answers a backend, queue empty": EMPTY,
    "tester-frontend answers a backend, unknown queue": UNKNOWN,
    "tester-frontend hands out work": WORK,
    "tester-backend sends (result)": RESULT,
    "tester-frontend answers a client": ANSWER,
    "tester-frontend answers a client, unknown queue": REFUSED,
}
RUN = BareResult("vm", "vm", ".", run_seconds=0.10034271)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.text(st.sampled_from('a"\0é€\U0001f600'), max_size=2000)


def test_the_messages_here_are_those_that_were_captured():
    if not WIRE.is_file():
        pytest.skip("the originals' files are not beside this checkout")
    found = dict(
        re.findall(r"^## (tester-[^\n]*) \(\d+ bytes\)\n```\n(.*?)\n```$", WIRE.read_text(), re.DOTALL | re.MULTILINE)
    )
    found.pop("tester-frontend /metrics")
    assert {name: text.encode() for name, text in found.items()} == CAPTURED


def test_reading():
    """Each message of the originals is understood."""
    assert parse_bare_request(REQUEST) == BareRequest("sleep", ("0.1",), 2.5)
    assert parse_bare_ask(ASK) == BareRequest("sleep")
    assert parse_bare_work(WORK) == BareWork("", ("0.1",), 2.5, False)
    assert parse_bare_work(EMPTY) == BareWork("Queue 'sleep' is empty", empty=True)
    assert parse_bare_work(UNKNOWN) == BareWork("Unknown 'nope' queue")
    assert parse_bare_result(RESULT) == RUN
    assert parse_bare_result(ANSWER) == RUN._replace(wait_seconds=0.201675995)
    assert parse_bare_result(REFUSED) == BareResult(error="Unknown 'nope' queue", exit_code=1)


def test_writing():
    assert encode_bare_request(BareRequest("sleep", ("0.1",), 2.5)) == REQUEST
    assert encode_bare_ask("sleep") == ASK
    assert encode_bare_work(("0.1",), 2.5) == WORK
    assert encode_bare_no_work("Queue 'sleep' is empty", empty=True) == EMPTY
    assert encode_bare_no_work("Unknown 'nope' queue") == UNKNOWN
    assert encode_bare_result(RUN) == RESULT
    assert encode_bare_answer(RUN._replace(wait_seconds=0.201675995)) == ANSWER
    assert encode_bare_answer(BareResult(error="Unknown 'nope' queue", exit_code=1)) == REFUSED


def test_letter_case_and_what_is_missing():
    """As Go reads: any letter case, the last one counts; missing and null are empty."""
    assert parse_bare_request(b'{"QUEUE":"a","queue":"b","args":null,"Extra":1}') == BareRequest(
        "b", notes=("Extra: unknown, ignored",)
    )
    assert parse_bare_request(b"{}") == BareRequest("")
    assert parse_bare_ask(b'{"qUeUe":null}').queue == ""
    assert parse_bare_work(b'{"empty":null}') == BareWork()
    assert parse_bare_result(b'{"RETCODE":3,"runtime":1}') == BareResult(run_seconds=1.0, exit_code=3)


def test_a_limit_below_0_is_none():
    """As it is to the original's backend."""
    assert parse_bare_request(b'{"Queue":"a","Limit":-1}').limit_seconds == 0


@pytest.mark.parametrize(
    ("parse", "message", "text"),
    [
        (parse_bare_request, b"{", "not JSON"),
        (parse_bare_request, b'{"Queue":1}', "Queue: must be a text"),
        (parse_bare_request, b'{"Args":"0.5"}', "Args: must be a list, not a text"),
        (parse_bare_request, b'{"Args":["a",1]}', "Args[1]: must be a text"),
        (parse_bare_request, b'{"Args":["a\\u0000b"]}', "Args[0]: contains a NUL"),
        (parse_bare_request, b'{"Limit":"2"}', "Limit: must be a number"),
        (parse_bare_request, b'{"Limit":1e999}', "1e999"),
        (parse_bare_ask, b'{"Queue":[]}', "Queue: must be a text"),
        (parse_bare_work, b'{"Empty":1}', "Empty: must be true or false, not a number"),
        (parse_bare_result, b'{"Retcode":1.5}', "Retcode: must be a whole number"),
        (parse_bare_result, b'{"Retcode":2147483648}', "Retcode: is not an exit code"),
        (parse_bare_result, b'{"Runtime":-1}', "Runtime: must not be negative"),
        (parse_bare_result, b'{"Timeout":true}', "Timeout: must be a number"),
        (parse_bare_result, b'{"Pod":null,"Node":{}}', "Node: must be a text, not an object"),
    ],
)
def test_what_is_wrong_is_told(parse, message, text):
    """Each mistake is a bad argument with a text that names the field."""
    with pytest.raises(ProtocolError) as caught:
        parse(message)
    assert caught.value.code == "bad-argument"
    assert text in caught.value.text


@given(TEXTS, TEXTS, TEXTS, TEXTS, st.floats(0, 1e10), st.integers(-(2**31) + 1, 2**31 - 1))
def test_answers_fit_whatever_they_say(pod, node, device, error, seconds, code):
    """Never more than the originals read; whole when that fits, and else beginnings of the texts."""
    result = BareResult(pod, node, device, error, seconds, seconds, seconds, code)
    message = encode_bare_answer(result)
    assert len(message) <= MAX_BARE_BYTES
    said = parse_bare_result(message)
    if said != result:
        longer = json.dumps([pod, node, device, error], ensure_ascii=False).encode()
        assert len(longer) > MAX_BARE_BYTES - 250
    for name in ("pod", "node", "device", "error"):
        assert getattr(result, name).startswith(getattr(said, name).removesuffix("..."))
    assert said[4:] == result[4:]


def test_an_error_is_cut_at_a_character():
    message = encode_bare_answer(BareResult("pod", "node", "card0", "€" * 1000, exit_code=1))
    said = parse_bare_result(message)
    assert MAX_BARE_BYTES - 3 < len(message) <= MAX_BARE_BYTES
    assert said.error == "€" * (len(said.error) - 3) + "..."
    assert (said.pod, said.node, said.device) == ("pod", "node", "card0")
    assert len(encode_bare_no_work("x" * 5000)) == MAX_BARE_BYTES


def test_file_names_that_are_no_unicode_can_be_told():
    assert parse_bare_result(encode_bare_result(BareResult(error="no file '\udcff'"))).error == "no file '?'"


@given(st.lists(TEXTS, max_size=12), st.floats(0, 1e10))
def test_work_that_fits(arguments, limit):
    assert fits_bare_work(arguments, limit) == (len(encode_bare_work(arguments, limit)) <= MAX_BARE_BYTES)


def test_work_of_exactly_1024_bytes_fits():
    room = MAX_BARE_BYTES - len(encode_bare_work(("",), 0.0))
    assert fits_bare_work(("x" * room,), 0.0)
    assert not fits_bare_work(("x" * (room + 1),), 0.0)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"), (-0.0, "-0"), (5.0, "5"), (2.5, "2.5"), (1e-5, "0.00001"), (1e-6, "0.000001"), (9.9e-7, "9.9e-7"),
        (1.5e-10, "1.5e-10"), (1e16, "10000000000000000"), (1.2345678901234568e20, "123456789012345680000"),
        (1e21, "1e+21"), (1e100, "1e+100"),
    ],
)  # fmt: skip
def test_numbers_as_go_writes_them(number, text):
    assert go_number(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_exact(number):
    assert float(go_number(number)) == number


@given(st.binary(max_size=60).map(lambda inner: b"{" + inner + b"}"))
def test_any_object_is_understood_or_refused(message):
    for parse in (parse_bare_request, parse_bare_ask, parse_bare_work, parse_bare_result):
        try:
            parse(message)
        except ProtocolError as error:
            assert error.text
