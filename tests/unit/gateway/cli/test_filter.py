"""`scopegate filter`: what it prints of messages, why, and its exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import main
from gateway.cli.notation import MessageFileError, load_filter, load_messages
from tests.support.filters.truth import messages

ORDERS = """
m1:
  header: {priority: 9}
  application-properties: {color: red, n: !int 7, price: !decimal64 1.50, when: !timestamp 5}
  data: hello
m2:
  application-properties: {color: blue}
  data: hello
"""
SPEED = r"\d+\.\d\d µs a message, [\d,]+ a second on one core of this machine"


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS)
    return file


def call(*args: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["filter", *map(str, args)], input=stdin)


def test_every_term_is_shown_with_what_it_is_and_why(orders: Path) -> None:
    result = call("a.color = 'red' AND (a.n > 5 OR NOT h.priority = 4)", "--message", orders)
    assert (result.exit_code, result.stderr) == (0, "")
    *lines, last = result.stdout.splitlines()
    assert lines == [
        f"{orders}:m1: matches",
        "  true     all of",
        "  true       a.color = 'red'   a.color is 'red' (string)",
        "  true       any of",
        "  true         a.n > 5   a.n is 7 (integer)",
        "  true         not",
        "  false          h.priority = 4   h.priority is 9 (integer)",
        f"{orders}:m2: does not match",
        "  false    all of",
        "  false      a.color = 'red'   a.color is 'blue' (string)",
        "  unknown    any of",
        "  unknown      a.n > 5   a.n is absent",
        "  false        not",
        "  true           h.priority = 4   h.priority is 4 (integer)",
    ]
    assert re.fullmatch(f"2 messages, 1 matching; {SPEED}", last)


@pytest.mark.parametrize(
    ("language", "expression", "line"),
    [
        ("sql", "a.price = 1.5", "  true     a.price = 1.5   a.price is 1.50 (decimal64)"),
        ("sql", "a.color LIKE 'r%'", "  true     a.color LIKE 'r%'   a.color is 'red' (string)"),
        ("sql", "m.[x-y].z[0] IS NULL", "  true     m.[x-y].z[0] IS NULL   m.[x-y].z[0] is absent"),
        ("sql", "8 + -a.n = 1", "  true     (8 + -a.n) = 1   a.n is 7 (integer)"),
        ("sql", "a.n IN (6, 7) AND EXISTS(a.n)", "  true       a.n IN (6, 7)   a.n is 7 (integer)"),
        ("selector", "JMSPriority > 4", "  true     h.priority > 4   h.priority is 9 (integer)"),
        ("event-sql", "TRUE", "  true     TRUE"),
        (
            "filter",
            "application-properties-filter: {color: '&p:RE'}",
            "  true     a.color begins with 'RE', ignoring case",
        ),
        ("filter", "not-filter: [header-filter: {priority: 4}]", "  false          h.priority matches 4 (integer)"),
    ],
)
def test_every_language_is_understood(language: str, expression: str, line: str, orders: Path) -> None:
    result = call(expression, "--as", language, "--message", orders)
    assert result.exit_code == 0, result.output
    assert any(shown.startswith(line) for shown in result.stdout.splitlines()), result.stdout


def test_encoded_messages_are_read_from_files_and_stdin(tmp_path: Path) -> None:
    file = tmp_path / "m1.amqp"
    file.write_bytes(messages()["m1"])
    result = call("color = 'red'", "--message", file, "--message", "-", stdin=messages()["m2"])
    assert f"{file}: matches" in result.stdout
    assert "-: does not match" in result.stdout
    assert "2 messages, 1 matching" in result.stdout


def test_nothing_that_matches_is_exit_code_1(orders: Path) -> None:
    result = call("a.color = 'green'", "--message", orders)
    assert (result.exit_code, result.stderr) == (1, "")
    assert "2 messages, 0 matching" in result.stdout


def test_a_message_that_cannot_be_decoded_matches_nothing(tmp_path: Path) -> None:
    file = tmp_path / "bad.amqp"
    file.write_bytes(b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\xff")  # an unknown constructor
    result = call("a.a IS NULL", "--message", file)
    assert result.exit_code == 1
    assert f"{file}: does not match" in result.stdout
    assert "cannot be decoded" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.color ="], "line 1, column 10: found the end"),
        (["application-properties-filter: [1]", "--as", "filter"], "must be a map"),
        (["application-properties-filter: [", "--as", "filter"], "--as filter: "),
        (["no-such-filter: 1", "--as", "filter"], "there is no filter of this type"),
        (["5", "--as", "filter"], "a filter must be a described value"),
    ],
)
def test_mistakes_in_the_filter_are_named(arguments: list[str], said: str, orders: Path) -> None:
    result = call(*arguments, "--message", orders)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"m: {heder: {}}", "message m: there is no section heder, but header"),
        (b"header: {prio: 4}", "there is no field prio, but durable"),
        (b"header: {priority: 300}", "message 1: priority: Ubyte out of range"),
        (b"data: !ubyte 300", "1:7: no ubyte"),
        (b"data: !number 3", "1:7: there is no type !number, but !ubyte"),
        (b"data: [", "1:8: "),
        (b"", "there is no message"),
        (b"- 1", "is no mapping of sections"),
        (b"\xff\xfe", "neither an encoded message nor YAML"),
        (b"\x00\x53\x99\x40", "no AMQP message: unknown section descriptor 0x99"),
    ],
)
def test_mistakes_in_a_message_are_named(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_bytes(content)
    result = call("TRUE", "--message", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{file}:")
    assert said in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = call("TRUE", "--message", tmp_path / "none")
    assert (result.exit_code, result.stderr) == (2, f"{tmp_path / 'none'}: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the messages to test"),
        (["--message", "x", "--topic", "y"], "name the messages to test"),
        (["--topic", "events/orders"], "--topic needs the --policy"),
    ],
)
def test_wrong_use_is_exit_code_2(arguments: list[str], said: str) -> None:
    result = call("TRUE", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


POLICY = """
kafka: {main: {bootstrap: embedded}}
scopes:
  edge:
    addresses: [{match: "events/{topic}", kafka: main, topic: "{topic}"}, {match: "chat/**", direct: balanced}]
    access: [{who: "*", may: [receive], on: "**"}]
"""


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--topic", "events/orders"], 2, "is embedded in the running gateway: say --bootstrap"),
        (["--topic", "chat/x"], 2, "chat/x is no event log in any scope"),
        (["--topic", "events/orders", "--scope", "core"], 2, "there is no scope core (there is: edge)"),
    ],
)
def test_a_topic_that_cannot_be_read_says_why(more: list[str], code: int, said: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    result = call("TRUE", "--policy", file, *more)
    assert result.exit_code == code, result.output
    assert said in result.stderr


def test_the_policys_limits_apply(tmp_path: Path, orders: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("filters: {max_length: 64}\n" + POLICY)
    long = "a.color = '" + "x" * 64 + "'"
    assert call(long, "--message", orders).exit_code == 1
    result = call(long, "--message", orders, "--policy", file)
    assert (result.exit_code, "the limit is 64" in result.stderr) == (2, True)


def test_documents_of_a_file_are_numbered() -> None:
    assert list(load_messages("data: a\n---\ndata: b\n")) == ["1", "2"]


def test_a_value_that_no_message_can_hold_is_refused() -> None:
    with pytest.raises(MessageFileError):
        load_filter("application-properties-filter: {a: 2020-01-01}")
