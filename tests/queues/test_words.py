"""Messages on the ports of the work queue in words, verb by verb, as in doc/protocol-queue.txt."""

from __future__ import annotations

import pytest

from fakedev.queues.job_ends import MAX_PER_OWNER
from tests.support.queues.queue_transcripts import QueuePorts, Transcript

ENDED = "exit-code=0 timeout-seconds=0 run-seconds={run} wait-seconds={wait}"

TRANSCRIPTS = {
    "a job from put to done": """
        c> put sleep 0.5
        c: ok 1
        + 2
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1 0.5
        + 3
        b> done 1 0
        b: ok success
        c: ended 1 success exit-code=0 timeout-seconds=0 run-seconds=3 wait-seconds=2
    """,
    "put: arguments, limit and mistakes": """
        c> put sleep "a b" '' -- NAME=VALUE limit=1
        c: ok 1
        c> put sleep limit=1m30s x
        c: ok 2
        b> take sleep count=9
        b: ok 2 lines
        b: 1 limit-seconds=0 attempt=1 "a b" "" NAME=VALUE limit=1
        b: 2 limit-seconds=90 attempt=1 x
        c> put nope
        c: error unknown-name Unknown 'nope' queue
        c> put
        c: error bad-argument queue: missing; usage: put QUEUE [ARG...] [limit=DURATION] [answer=accepted|ended]
        c> put sleep limit=0.2
        c: ok 3
        b> take sleep
        b: ok 3 limit-seconds=0.2 attempt=1
        c> put sleep limit=soon
        c: error bad-argument limit: 'soon' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m
        c> put sleep limit=-5
        c: error bad-argument limit: must be 0 to 10000000000 seconds
        c> put sleep limit=1e400
        c: error bad-argument limit: '1e400' is not a finite number
        c> put sleep answer=soon
        c: error bad-argument answer: must be accepted or ended
        c> put sleep limt=2s
        c: error bad-argument limt: not an argument of put; did you mean limit?; to give it as ARG, write -- first
        c> put sleep a\0b
        c: error bad-argument args[0]: contains a NUL, which a command cannot receive
        c> cancel seven
        c: error bad-argument job: must be a whole number, not 'seven'
        c> take sleep
        c: error unknown-verb no verb 'take'; help lists the verbs
    """,
    "put: answered when it has ended; later requests wait": """
        c> put sleep answer=ended
        c> list
        b> hello node=n1 pod=p1 device=card0
        b: ok
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1
        b> fail 1 3 no  such file run=0 -- a=b
        b: ok failure
        c: ok 1 failure exit-code=3 error="no such file a=b" timeout-seconds=0 run-seconds=0 wait-seconds=0 pod=p1 node=n1 device=card0
        c: ok 2 lines
        c: sleep
        c: other
    """,
    "cancel": """
        c> put sleep
        c: ok 1
        c> cancel 1
        c: ended 1 cancelled exit-code=1 error="cancelled by the client" timeout-seconds=0 run-seconds=0 wait-seconds=0
        c: ok
        c> cancel 1
        c: error unknown-name No job 1 of this connection
        c> put sleep
        c: ok 2
        c2> cancel 2
        c2: error unknown-name No job 2 of this connection
        b> take sleep
        b: ok 2 limit-seconds=0 attempt=1
        c> cancel 2
        c: ended 2 cancelled exit-code=1 error="cancelled by the client" timeout-seconds=0 run-seconds=0 wait-seconds=0
        c: ok
        b: withdrawn 2 cancelled
        b> done 2 0
        b: error unknown-name No job 2 of this connection
    """,
    "hello: what is not given stays": """
        b> hello node=n1
        b: ok
        b> hello pod="a b"
        b: ok
        c> put sleep answer=ended
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1
        b> done 1 0
        b: ok success
        c: ok 1 success exit-code=0 timeout-seconds=0 run-seconds=0 wait-seconds=0 pod="a b" node=n1
    """,
    "take: nothing there, unknown, counts": """
        b> take sleep
        b: ok empty
        b> take sleep count=2
        b: ok 0 lines
        b> take nope
        b: error unknown-name Unknown 'nope' queue
        b> take sleep count=0
        b: error bad-argument count: must be 1 to 1000
        b> take sleep count=1001
        b: error bad-argument count: must be 1 to 1000
        b> take sleep wait=-1s
        b: error bad-argument wait: '-1s' is negative: give at least 0
    """,
    "take: waits in turn, and holds up what comes after it": """
        b> take sleep wait=30s
        b> list
        b2> take sleep wait=10s count=5
        + 10
        b2: ok 0 lines
        b2> take sleep wait=10s
        c> put sleep a
        c: ok 1
        b: ok 1 limit-seconds=0 attempt=1 a
        b: ok 2 lines
        b: sleep
        b: other
        c> put sleep b
        c: ok 2
        b2: ok 2 limit-seconds=0 attempt=1 b
    """,
    "done: other codes, run time": """
        c> put sleep answer=ended
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1
        b> done 1 7 run=250ms
        b: ok failure
        c: ok 1 failure exit-code=7 error="exit code 7" timeout-seconds=0 run-seconds=0.25 wait-seconds=0
        b> done 1 0
        b: error unknown-name No job 1 of this connection
        b> done 1
        b: error bad-argument exit-code: missing; usage: done ID EXITCODE [run=DURATION]
        b> done 1 2147483648
        b: error bad-argument exit-code: must be -2147483647 to 2147483647
        b> done 7 0 well
        b: error bad-argument unexpected 'well'; usage: done ID EXITCODE [run=DURATION]
    """,
    "fail: a time-out that the backend saw": """
        c> put sleep limit=2s answer=ended
        b> take sleep
        b: ok 1 limit-seconds=2 attempt=1
        + 2
        b> fail 1 143 timeout=2s run=2s
        b: ok timeout
        c: ok 1 timeout exit-code=143 error="the time limit of 2 s is over" timeout-seconds=2 run-seconds=2 wait-seconds=0
    """,
    "fail: without a code or a reason it is no success; the given reason counts": """
        c> put sleep
        c: ok 1
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1
        b> fail 1 0
        b: ok failure
        c: ended 1 failure exit-code=1 error=failed timeout-seconds=0 run-seconds=0 wait-seconds=0
        c> put sleep
        c: ok 2
        b> take sleep
        b: ok 2 limit-seconds=0 attempt=1
        b> fail 2 0 timeout=1s too slow
        b: ok timeout
        c: ended 2 timeout exit-code=1 error="too slow" timeout-seconds=1 run-seconds=0 wait-seconds=0
    """,
    "the limit and the grace are over": """
        c> put sleep limit=2s answer=ended
        b> take sleep
        b: ok 1 limit-seconds=2 attempt=1
        + 6.9
        + 0.1
        c: ok 1 timeout exit-code=1 error="the backend sent no result within the time limit of 2 s and 5 s more" timeout-seconds=2 run-seconds=7 wait-seconds=0
        b: withdrawn 1 timeout
        b> done 1 0
        b: error unknown-name No job 1 of this connection
    """,
    "touch": """
        c> put sleep limit=2s answer=ended
        b> take sleep
        b: ok 1 limit-seconds=2 attempt=1
        + 6
        b> touch 1
        b: ok
        + 6
        b> done 1 0
        b: ok success
        c: ok 1 success exit-code=0 timeout-seconds=0 run-seconds=12 wait-seconds=0
        b> touch 1
        b: error unknown-name No job 1 of this connection
    """,
    "release: at its old place": """
        c> put sleep a
        c: ok 1
        c> put sleep b
        c: ok 2
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1 a
        b> release 1
        b: ok
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=2 a
        b> release 2
        b: error unknown-name No job 2 of this connection
    """,
    "bury and kick": """
        c> put sleep a
        c: ok 1
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1 a
        b> bury 1 crashes every backend
        b: ok
        c: ended 1 lost exit-code=1 error="crashes every backend" timeout-seconds=0 run-seconds=0 wait-seconds=0
        b> list sleep
        b: ok 1 lines
        b: 1 state=buried age-seconds=0 attempt=1 reason="crashes every backend" -- a
        b> kick sleep 5
        b: ok kicked 1
        b> kick sleep
        b: ok kicked 0
        b> take sleep
        b: ok 2 limit-seconds=0 attempt=1 a
        b> kick nope
        b: error unknown-name Unknown 'nope' queue
        b> kick sleep 0
        b: error bad-argument count: must be 1 to 9223372036854775808
    """,
    "pause for a time": """
        c> put sleep a
        c: ok 1
        b> pause sleep 5s
        b: ok
        b> take sleep
        b: ok empty
        b2> take sleep wait=30s
        + 5
        b2: ok 1 limit-seconds=0 attempt=1 a
    """,
    "pause until resume; drain": """
        b> pause sleep
        b: ok
        b2> take sleep wait=1h
        c> put sleep a
        c: ok 1
        b> drain sleep
        b: ok
        c> put sleep b
        c: error busy Queue 'sleep' is draining
        c> put other
        c: ok 2
        b> resume
        b: ok
        b2: ok 1 limit-seconds=0 attempt=1 a
        c> put sleep b
        c: ok 3
        b> drain
        b: ok
        c> put other
        c: error busy Queue 'other' is draining
        b> pause nope
        b: error unknown-name Unknown 'nope' queue
        b> drain nope
        b: error unknown-name Unknown 'nope' queue
        b> resume nope
        b: error unknown-name Unknown 'nope' queue
    """,
    "stats and list": """
        c> put sleep a
        c: ok 1
        c> put sleep "b c"
        c: ok 2
        b> hello node=n pod=p
        b: ok
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1 a
        + 1.5
        c> list sleep
        c: ok 2 lines
        c: 1 state=running age-seconds=1.5 attempt=1 node=n pod=p -- a
        c: 2 state=waiting age-seconds=1.5 attempt=0 -- "b c"
        b> list
        b: ok 2 lines
        b: sleep
        b: other
        b> stats sleep
        b: ok 1 lines
        b: sleep state=open waiting=1 running=1 buried=0 waiting-bytes=579 oldest-seconds=1.5 workers-idle=0 workers-busy=1 put=2 success=0 failure=0 timeout=0 cancelled=0 lost=0 refused=0 disconnect=0 buried-total=0
        c> stats nope
        c: error unknown-name Unknown 'nope' queue
        c> list nope
        c: error unknown-name Unknown 'nope' queue
    """,
    "quit: the jobs that a backend holds wait again, at their old places, and the next one gets them": """
        c> put sleep a
        c: ok 1
        c> put sleep b
        c: ok 2
        b> take sleep count=2
        b: ok 2 lines
        b: 1 limit-seconds=0 attempt=1 a
        b: 2 limit-seconds=0 attempt=1 b
        b2> take sleep wait=10
        b> quit
        b: ok
        b: closed
        b2: ok 1 limit-seconds=0 attempt=2 a
        b2> take sleep
        b2: ok 2 limit-seconds=0 attempt=2 b
        b2> done 1 0
        b2: ok success
        c: ended 1 success exit-code=0 timeout-seconds=0 run-seconds=0 wait-seconds=0
    """,
    "quit": """
        c> put sleep
        c: ok 1
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1
        c> quit
        c: ok
        c: closed
        b: withdrawn 1 cancelled
    """,
    "the end of input after requests that are over": """
        b> list
        b: ok 2 lines
        b: sleep
        b: other
        b> EOF
        b: closed
    """,
    "a client that leaves: its waiting request is gone, its running one withdrawn": """
        c> put sleep a
        c: ok 1
        c> put sleep b
        c: ok 2
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1 a
        c> EOF
        c: closed
        b: withdrawn 1 cancelled
        b> take sleep
        b: ok empty
        b> stats sleep
        b: ok 1 lines
        b: sleep state=open waiting=0 running=0 buried=0 waiting-bytes=0 oldest-seconds=0 workers-idle=0 workers-busy=0 put=2 success=0 failure=0 timeout=0 cancelled=2 lost=0 refused=0 disconnect=2 buried-total=0
    """,
    "a backend that breaks while it holds a job": """
        c> put sleep answer=ended
        b> take sleep
        b: ok 1 limit-seconds=0 attempt=1
        b> GONE
        c: ok 1 lost exit-code=1 error="the backend disconnected before the run ended" timeout-seconds=0 run-seconds=0 wait-seconds=0
    """,
    "a backend that waits and leaves gets nothing": """
        b> take sleep wait=1h
        b> EOF
        b: closed
        c> put sleep
        c: ok 1
        b2> take sleep
        b2: ok 1 limit-seconds=0 attempt=1
    """,
}  # fmt: skip


@pytest.mark.parametrize("piece_bytes", [65536, 1])
@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_words(transcript: str, piece_bytes: int) -> None:
    Transcript(QueuePorts(), piece_bytes).play(transcript)


def test_large_jobs_are_given_and_shown_in_parts() -> None:
    """One answer takes neither long nor much memory: a take has enough with 1 MiB, a list shows beginnings."""
    ports = QueuePorts()
    client, backend = ports.client(), ports.backend()
    for _ in range(20):
        client.send(b"put sleep a " + b"x" * 65000 + b"\n")
    listed = backend.say("list sleep")
    assert (len(listed), listed[1].partition(" -- ")[2]) == (21, "a " + "x" * 99 + "...")
    assert backend.say("take sleep count=1000")[0] == "ok 16 lines"


def test_a_reason_that_is_kept_is_short() -> None:
    ports = QueuePorts()
    backend = ports.backend()
    ports.client().say("put sleep")
    backend.say("take sleep")
    assert backend.say("bury 1 " + "x" * 1025) == ["error bad-argument reason: is longer than 1024 characters"]
    assert backend.say("bury 1 " + "x" * 1024) == ["ok"]
    assert " reason=" + "x" * 100 + "... --" in backend.say("list sleep")[1]


def test_hands_that_are_full_in_the_middle_of_an_answer() -> None:
    """The jobs taken until then are answered; the next one is refused."""
    ports = QueuePorts()
    backend = ports.backend()
    for count in (MAX_PER_OWNER, 10):
        client = ports.client()
        for _ in range(count):
            client.send(b"put sleep\n")
    answers = [backend.say("take sleep count=1000")[0] for _ in range(6)]
    assert answers == [*["ok 1000 lines"] * 4, "ok 96 lines", "error full This connection holds 4096 jobs"]
