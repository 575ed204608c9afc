"""Streams of changes: bounded in number, and dropped when their readers are behind."""

from __future__ import annotations

import json

from gateway.admin.live.streams import BEHIND, OWN, STREAMS, ChangeStreams


def test_a_stream_that_is_behind_is_dropped_and_the_others_go_on() -> None:
    reasons: list[str] = []
    closed: list[str] = []
    streams = ChangeStreams(reasons.append)
    streams.open("token a", lambda: closed.append("slow"), lambda: True)
    for at in range(BEHIND):
        streams.publish([("status", at)])
    assert (len(streams), reasons) == (1, [])
    streams.open("token a", lambda: closed.append("quick"), lambda: True)
    streams.publish([("status", "ü")])
    assert (len(streams), reasons, closed) == (1, ["event-stream-too-slow"], ["slow"])


async def test_a_round_is_sent_as_events() -> None:
    streams = ChangeStreams(lambda _: None)
    stream = streams.open("token a", lambda: None, lambda: True)
    streams.publish([("status", {"a": 1}), ("rates", ["two\nlines"])])
    streams.close()
    (data,) = [part async for part in stream.read()]
    first, second = data.decode().removesuffix("\n\n").split("\n\n")
    assert first == 'event: status\ndata: {"a": 1}'
    assert json.loads(second.removeprefix("event: rates\ndata: ")) == ["two\nlines"]


async def test_a_stream_ends_when_its_caller_may_see_it_no_more() -> None:
    allowed = [True]
    streams = ChangeStreams(lambda _: None)
    stream = streams.open("token a", lambda: None, lambda: allowed[0])
    streams.publish([("status", 1)])
    allowed[0] = False
    streams.publish([("status", 2)])
    assert (len([part async for part in stream.read()]), len(streams)) == (1, 0)


def test_there_are_only_so_many() -> None:
    streams = ChangeStreams(lambda _: None)
    opened = []
    for number in range(STREAMS):
        assert streams.refusal(f"token {number}") is None
        opened.append(streams.open(f"token {number}", lambda: None, lambda: True))
    assert streams.refusal("token z") == (503, "32 event streams are open, the limit of the gateway")
    for _ in range(2):
        streams.remove(opened[0])
    assert (len(streams), streams.refusal("token z")) == (STREAMS - 1, None)


def test_one_caller_leaves_streams_to_others() -> None:
    streams = ChangeStreams(lambda _: None)
    opened = [streams.open("token a", lambda: None, lambda: True) for _ in range(OWN)]
    assert streams.refusal("token a") == (429, "token a has 16 event streams open, its limit; end one of them")
    assert streams.refusal("token b") is None
    for _ in range(2):
        streams.remove(opened[0])
    assert streams.refusal("token a") is None
    streams.open("token a", lambda: None, lambda: True)
    assert streams.refusal("token a") is not None
