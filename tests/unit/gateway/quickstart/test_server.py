"""What the quickstart takes for a gateway that is ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway import quickstart
from gateway.quickstart import server

LISTENERS = {"ready": True, "required": True, "detail": "all"}


@pytest.mark.parametrize(("kafka", "ready"), [(True, True), (False, False)])
def test_it_waits_for_the_parts_that_others_can_do_without(
    monkeypatch: pytest.MonkeyPatch, kafka: bool, ready: bool
) -> None:
    """The journey reads from Kafka, and its address is in the detail of a cluster that is up."""
    parts = {"listeners": LISTENERS, "kafka/main": {"ready": kafka, "required": False, "detail": ""}}
    monkeypatch.setattr(server, "_get", lambda _: {"ready": True, "parts": parts})
    place: Any = SimpleNamespace(http="127.0.0.1:1")
    assert server.Server(place).parts() == (ready, parts)


def test_no_answer_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_get", lambda _: None)
    place: Any = SimpleNamespace(http="127.0.0.1:1")
    assert server.Server(place).parts() == (False, {})


def test_an_answer_that_is_late_does_not_hide_the_embedded_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked once more, and a gateway that stood still for two seconds had `nowhere` as its Kafka."""
    parts = {"kafka/main": {"ready": True, "required": False, "detail": "kafka main: embedded at 127.0.0.1:9"}}
    answers = iter([None, {"ready": True, "parts": parts}, None])
    monkeypatch.setattr(server, "_get", lambda _: next(answers))
    monkeypatch.setattr(server.subprocess, "Popen", lambda *_, **__: SimpleNamespace(poll=lambda: None))
    clusters = {"main": "embedded"}
    place: Any = SimpleNamespace(http="127.0.0.1:1", binds={}, policy="p", environ={}, clusters=clusters)
    started = server.Server(place)
    started.start()
    assert quickstart._bootstrap(place, started) == "127.0.0.1:9"
