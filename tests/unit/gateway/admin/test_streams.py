"""Streams of changes: bounded in number, and dropped when their readers are behind."""

from __future__ import annotations

import json

from gateway.admin.live.streams import BEHIND, STREAMS, ChangeStreams


def test_a_stream_that_is_behind_is_dropped_and_the_others_go_on() -> None:
    reasons: list[str] = []
    closed: list[str] = []
    streams = ChangeStreams(reasons.append)
    slow = streams.open(lambda: closed.append("slow"), lambda: True)
    assert slow is not None
    for at in range(BEHIND):
        streams.publish([("status", at)])
    assert (len(streams), reasons) == (1, [])
    quick = streams.open(lambda: closed.append("quick"), lambda: True)
    streams.publish([("status", "ü")])
    assert (len(streams), reasons, closed) == (1, ["event-stream-too-slow"], ["slow"])
    assert quick is not None


async def test_a_round_is_sent_as_events() -> None:
    streams = ChangeStreams(lambda _: None)
    stream = streams.open(lambda: None, lambda: True)
    assert stream is not None
    streams.publish([("status", {"a": 1}), ("rates", ["two\nlines"])])
    streams.close()
    (data,) = [part async for part in stream.read()]
    first, second = data.decode().removesuffix("\n\n").split("\n\n")
    assert first == 'event: status\ndata: {"a": 1}'
    assert json.loads(second.removeprefix("event: rates\ndata: ")) == ["two\nlines"]


async def test_a_stream_ends_when_its_caller_may_see_it_no_more() -> None:
    allowed = [True]
    streams = ChangeStreams(lambda _: None)
    stream = streams.open(lambda: None, lambda: allowed[0])
    assert stream is not None
    streams.publish([("status", 1)])
    allowed[0] = False
    streams.publish([("status", 2)])
    assert (len([part async for part in stream.read()]), len(streams)) == (1, 0)


def test_there_are_only_so_many() -> None:
    streams = ChangeStreams(lambda _: None)
    opened = [streams.open(lambda: None, lambda: True) for _ in range(STREAMS + 3)]
    assert opened.count(None) == 3
    assert opened[0] is not None
    streams.remove(opened[0])
    assert streams.open(lambda: None, lambda: True) is not None
