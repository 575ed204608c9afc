"""Log lines: two styles, no secrets, no forged lines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from gateway.observability.logs import HIDDEN, MAX_TEXT, configure_logs, get_logger

LOG = get_logger("gateway.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def logged(event: str = "event", **values: Any) -> dict[str, Any]:
    out = io.StringIO()
    configure_logs(stream=out)
    LOG.info(event, **values)
    (line,) = out.getvalue().splitlines()
    return dict(json.loads(line))


def test_json_lines_where_nobody_watches() -> None:
    line = logged("link opened", scope="edge", links=3)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "link opened", "level": "info", "logger": "gateway.test", "scope": "edge", "links": 3}


def test_readable_on_a_terminal() -> None:
    out = Terminal()
    configure_logs(stream=out)
    LOG.info("link opened", scope="edge")
    assert "link opened" in out.getvalue()
    assert not out.getvalue().startswith("{")


@pytest.mark.parametrize(("style", "is_json"), [("json", True), ("console", False)])
def test_the_policy_may_choose(style: Any, is_json: bool) -> None:
    for out in (Terminal(), io.StringIO()):
        configure_logs(style=style, stream=out)
        LOG.info("x")
        assert out.getvalue().startswith("{") is is_json


def test_levels() -> None:
    out = io.StringIO()
    configure_logs("warning", stream=out)
    LOG.info("quiet")
    LOG.warning("loud")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["loud"]


@pytest.mark.parametrize("key", ["password", "sasl_password", "Address-Cookie", "client_secret", "body", "accessToken"])
def test_secrets_are_left_out(key: str) -> None:
    line = logged(**{key: "hunter2"}, nested={key: ["hunter2"]}, deep=[{"a": {key: b"hunter2"}}])
    assert line[key] == HIDDEN
    assert "hunter2" not in json.dumps(line)


def test_numbers_are_no_secrets() -> None:
    assert logged(body_bytes=7, cookies=None)["body_bytes"] == 7


def test_binary_is_never_shown() -> None:
    assert logged(data=b"hunter2")["data"] == "<7 bytes>"


def test_hostile_text_stays_on_its_line() -> None:
    line = logged("a\nb", address='x\r\n{"event": "forged"}\x1b[2J\u2028\ud800')
    assert line["event"] == "a\\nb"
    assert line["address"] == 'x\\r\\n{"event": "forged"}\\x1b[2J\\u2028\\ud800'
    out = Terminal()
    configure_logs(stream=out)
    LOG.info("event", address="\x1b]0;title\x07\n", k=["\x1b"])
    assert "\x1b]0;" not in out.getvalue()
    assert len(out.getvalue().splitlines()) == 1


def test_long_values_are_cut() -> None:
    line = logged(address="x" * 65_536, many=list(range(1000)))
    assert line["address"] == "x" * MAX_TEXT + "… (65536 characters)"
    assert len(line["many"]) == 32


def test_values_of_any_depth_and_type() -> None:
    loop: list[Any] = []
    loop.append(loop)
    line = logged(loop=loop, error=ValueError("no\n"), kind=Terminal)
    assert line["error"] == "no\\n"


def test_exceptions_keep_their_lines_but_not_their_control_characters() -> None:
    out = io.StringIO()
    configure_logs(stream=out)
    try:
        raise ValueError("bad \x1b[2J input")
    except ValueError:
        LOG.exception("failed")
    line = json.loads(out.getvalue())
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("bad \\x1b[2J input")
    assert "\n" in line["exception"]


def test_libraries_log_into_the_same_stream() -> None:
    out = io.StringIO()
    configure_logs(stream=out)
    logging.getLogger("asyncio").error("%s was never retrieved", "Task")
    logging.getLogger("uvicorn.error").info("chatter")
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert (line["event"], line["logger"], line["level"]) == ("Task was never retrieved", "asyncio", "error")
