"""Messages on the ports of the work queue in JSON lines, as in doc/protocol-queue.txt."""

from __future__ import annotations

import json

import pytest

from tests.support.queues.queue_transcripts import QueuePorts, Transcript

TRANSCRIPTS = {
    "a job from put to done": """
        c> {"op":"put","id":1,"queue":"sleep","args":["0.5"],"limit":2.5,"answer":"ended"}
        + 2
        b> {"op":"hello","node":"n","pod":"p","device":"card0"}
        b: {"ok":true}
        b> {"op":"take","id":1,"queue":"sleep","wait":"30s","count":1}
        b: {"id":1,"ok":true,"jobs":[{"job":1,"queue":"sleep","args":["0.5"],"limit-seconds":2.5,"attempt":1,"wait-seconds":2}]}
        b> {"op":"done","id":2,"job":1,"exit-code":0,"run":0.5}
        b: {"id":2,"ok":true,"outcome":"success"}
        c: {"id":1,"ok":true,"job":1,"outcome":"success","exit-code":0,"error":"","timeout-seconds":0,"run-seconds":0.5,"wait-seconds":2,"pod":"p","node":"n","device":"card0"}
    """,
    "put: the end as a notification": """
        c> {"op":"put","id":"x","queue":"sleep","answer":"accepted"}
        c: {"id":"x","ok":true,"job":1}
        b> {"op":"take","queue":"sleep"}
        b: {"ok":true,"jobs":[{"job":1,"queue":"sleep","args":[],"limit-seconds":0,"attempt":1,"wait-seconds":0}]}
        b> {"op":"fail","job":1,"exit-code":2,"reason":"no"}
        b: {"ok":true,"outcome":"failure"}
        c: {"event":"ended","job":1,"outcome":"failure","exit-code":2,"error":"no","timeout-seconds":0,"run-seconds":0,"wait-seconds":0,"pod":"","node":"","device":""}
    """,
    "put: wrong arguments": """
        c> {"op":"put","id":1,"queue":"nope"}
        c: {"id":1,"ok":false,"error":{"code":"unknown-name","message":"Unknown 'nope' queue"}}
        c> {"op":"put","id":2,"queue":"sleep","args":"0.5"}
        c: {"id":2,"ok":false,"error":{"code":"bad-argument","message":"args: must be a list of texts without NUL, not a text"}}
        c> {"op":"put","id":3,"queue":"sleep","args":["a","b\\u0000"]}
        c: {"id":3,"ok":false,"error":{"code":"bad-argument","message":"args: must be a list of texts without NUL, not a list"}}
        c> {"op":"put","id":4,"queue":"sleep","limit":-1}
        c: {"id":4,"ok":false,"error":{"code":"bad-argument","message":"limit: must be 0 to 10000000000 seconds"}}
    """,
    "many requests of one connection, ended in any order": """
        c> {"op":"put","id":1,"queue":"sleep"}
        c> {"op":"put","id":2,"queue":"sleep"}
        c> {"op":"put","id":3,"queue":"sleep"}
        c> {"op":"list","id":4}
        c: {"id":4,"ok":true,"queues":["sleep","other"]}
        b> {"op":"take","id":1,"queue":"sleep","count":3}
        b: {"id":1,"ok":true,"jobs":[{"job":1,"queue":"sleep","args":[],"limit-seconds":0,"attempt":1,"wait-seconds":0},{"job":2,"queue":"sleep","args":[],"limit-seconds":0,"attempt":1,"wait-seconds":0},{"job":3,"queue":"sleep","args":[],"limit-seconds":0,"attempt":1,"wait-seconds":0}]}
        b> {"op":"done","id":2,"job":3,"exit-code":0}
        b: {"id":2,"ok":true,"outcome":"success"}
        c: {"id":3,"ok":true,"job":3,"outcome":"success","exit-code":0,"error":"","timeout-seconds":0,"run-seconds":0,"wait-seconds":0,"pod":"","node":"","device":""}
        c> {"op":"cancel","id":5,"job":1}
        c: {"id":1,"ok":true,"job":1,"outcome":"cancelled","exit-code":1,"error":"cancelled by the client","timeout-seconds":0,"run-seconds":0,"wait-seconds":0,"pod":"","node":"","device":""}
        c: {"id":5,"ok":true}
        b: {"event":"withdrawn","job":1,"reason":"cancelled"}
    """,
    "many takes of one connection": """
        b> {"op":"take","id":1,"queue":"sleep","wait":60}
        b> {"op":"take","id":2,"queue":"other","wait":60}
        b> {"op":"take","id":3,"queue":"sleep","wait":60.5}
        c> {"op":"put","id":1,"queue":"other"}
        b: {"id":2,"ok":true,"jobs":[{"job":1,"queue":"other","args":[],"limit-seconds":0,"attempt":1,"wait-seconds":0}]}
        + 60
        b: {"id":1,"ok":true,"jobs":[]}
        + 0.5
        b: {"id":3,"ok":true,"jobs":[]}
    """,
    "jobs: touch, release, bury, kick": """
        c> {"op":"put","queue":"sleep","answer":"accepted"}
        c: {"ok":true,"job":1}
        b> {"op":"take","queue":"sleep"}
        b: {"ok":true,"jobs":[{"job":1,"queue":"sleep","args":[],"limit-seconds":0,"attempt":1,"wait-seconds":0}]}
        b> {"op":"touch","id":1,"job":1}
        b: {"id":1,"ok":true}
        b> {"op":"release","id":2,"job":1}
        b: {"id":2,"ok":true}
        b> {"op":"touch","id":3,"job":1}
        b: {"id":3,"ok":false,"error":{"code":"unknown-name","message":"No job 1 of this connection"}}
        b> {"op":"take","id":4,"queue":"sleep"}
        b: {"id":4,"ok":true,"jobs":[{"job":1,"queue":"sleep","args":[],"limit-seconds":0,"attempt":2,"wait-seconds":0}]}
        b> {"op":"bury","id":5,"job":1,"reason":"no"}
        b: {"id":5,"ok":true}
        c: {"event":"ended","job":1,"outcome":"lost","exit-code":1,"error":"no","timeout-seconds":0,"run-seconds":0,"wait-seconds":0,"pod":"","node":"","device":""}
        b> {"op":"list","id":6,"queue":"sleep"}
        b: {"id":6,"ok":true,"jobs":[{"job":1,"state":"buried","age-seconds":0,"attempt":2,"reason":"no","args":[]}],"total":1}
        b> {"op":"kick","id":7,"queue":"sleep","count":10}
        b: {"id":7,"ok":true,"kicked":[2]}
    """,
    "queues: pause, drain, resume, stats": """
        b> {"op":"pause","id":1,"queue":"sleep","duration":"1m"}
        b: {"id":1,"ok":true}
        b> {"op":"drain","id":2,"queue":"sleep"}
        b: {"id":2,"ok":true}
        b> {"op":"stats","id":3,"queue":"sleep"}
        b: {"id":3,"ok":true,"queues":[{"queue":"sleep","state":"paused,draining","waiting":0,"running":0,"buried":0,"waiting-bytes":0,"oldest-seconds":0,"workers-idle":0,"workers-busy":0,"put":0,"success":0,"failure":0,"timeout":0,"cancelled":0,"lost":0,"refused":0,"disconnect":0,"buried-total":0}]}
        c> {"op":"put","id":1,"queue":"sleep"}
        c: {"id":1,"ok":false,"error":{"code":"busy","message":"Queue 'sleep' is draining"}}
        b> {"op":"resume","id":4,"queue":null}
        b: {"id":4,"ok":true}
        b> {"op":"quit","id":5}
        b: {"id":5,"ok":true}
        b: closed
    """,
}  # fmt: skip


@pytest.mark.parametrize("piece_bytes", [65536, 7, 1])
@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_json_lines(transcript: str, piece_bytes: int) -> None:
    """Whole lines, odd pieces and single bytes are answered the same."""
    Transcript(QueuePorts(), piece_bytes).play(transcript)


def test_256_requests_may_wait() -> None:
    ports = QueuePorts()
    client, backend = ports.client(), ports.backend()
    for number in range(256):
        assert client.say(f'{{"op":"put","id":{number},"queue":"sleep"}}') == []
    (refused,) = client.say('{"op":"put","id":256,"queue":"sleep"}')
    assert json.loads(refused)["error"]["code"] == "full"
    (given,) = backend.say('{"op":"take","id":1,"queue":"sleep","count":1000}')
    jobs = [job["job"] for job in json.loads(given)["jobs"]]
    assert jobs == list(range(1, 257))
    backend.send(b"".join(b'{"op":"done","id":1,"job":%d,"exit-code":0}\n' % job for job in jobs))
    ports.clock.advance(0)
    ended = [json.loads(line) for line in client.told().splitlines()]
    assert [(answer["id"], answer["outcome"]) for answer in ended] == [(n, "success") for n in range(256)]


def test_answers_of_one_turn_leave_in_one_write() -> None:
    """What a client's requests bring to a backend is one write, and so is what the reports bring to the client."""
    ports = QueuePorts()
    client, backend = ports.client(), ports.backend()
    backend.send(b'{"op":"take","id":1,"queue":"sleep","wait":60}\n' * 16)
    client.send(b'{"op":"put","id":1,"queue":"sleep"}\n' * 16)
    assert len(backend.transport.writes) == 1
    backend.send(b"".join(b'{"op":"done","id":1,"job":%d,"exit-code":0}\n' % job for job in range(1, 17)))
    assert (len(client.transport.writes), len(backend.transport.writes)) == (1, 2)
