"""`scopegate send`, `receive` and `request` as people call them: against a gateway, a broker and files of messages."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.support.cli.commands import Result, command, run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.project.parts import ROOT
from tests.support.servers.certs import Authority
from tests.support.servers.servers import Artemis

PASSWORD = "wonder-land-1865"


class Commands:
    """The commands, run against one gateway."""

    def __init__(self, start: Gateways, authority: Authority, folder: Path) -> None:
        users = folder / "users.yaml"
        assert run("users", "add", str(users), "alice", "--password-stdin", text=f"{PASSWORD}\n").returncode == 0
        server = authority.server(file="commands")
        document = Document()
        tls = {"cert": str(server.cert), "key": str(server.key), "client_ca": str(authority.ca)}
        self.tls = document.add_listener(sasl=["external", "scram-sha-256"], users=str(users), tls=tls)
        self.plain = document.add_listener(sasl=["plain"], users=str(users), allow_plain_without_tls=True)
        document.scope()["addresses"].append({"match": "echo", "service": "echo"})
        document.scope()["addresses"].append({"match": "svc/echo", "service": "echo"})
        document.kafka("embedded", topics=dict.fromkeys((*TOPICS, "orders", "copies"), 2))
        self.gateway = start(document.text)
        self.url, self.authority = f"amqp://127.0.0.1:{document.edge}", authority
        self.topics = iter(TOPICS)

    def topic(self) -> str:
        """The address of a topic that no other test uses."""
        return f"events/{next(self.topics)}"

    def send(self, address: str, *more: str, text: str = "") -> Result:
        return run("send", self.url, address, *more, text=text)

    def receive(self, address: str, *more: str) -> Result:
        return run("receive", self.url, address, *more)

    def request(self, address: str, *more: str) -> Result:
        return run("request", self.url, address, *more)


TOPICS = [f"t{number}" for number in range(24)]


@pytest.fixture(scope="module")
def commands(
    start_module_gateway: Gateways, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Commands:
    return Commands(start_module_gateway, authority, tmp_path_factory.mktemp("commands"))


# -- sending and receiving


def test_lines_become_messages_and_come_back_in_order(commands: Commands) -> None:
    topic = commands.topic()
    sent = commands.send(topic, "--partition", "1", text="one\ntwo\r\nthree")
    assert sent.returncode == 0, sent.stderr
    assert sent.stderr.startswith("sent 3 messages")
    got = commands.receive(topic, "--from", "earliest")
    assert (got.returncode, got.stdout) == (0, "one\ntwo\nthree\n")
    assert got.stderr.startswith("received 3 messages")


def test_every_option_of_a_message_arrives(commands: Commands) -> None:
    topic = commands.topic()
    options = (
        "--body", "x", "--text", "--subject", "s", "--reply-to", "r", "--message-id", "m", "--correlation-id", "c",
        "--content-type", "text/plain", "--group-id", "g", "--to", "t", "--property", "n=5", "--property", "color=red",
        "--property", 'text="5"', "--annotation", "x-opt-a=true", "--durable", "--ttl", "60000", "--priority", "7",
        "--record-key", "k",
    )  # fmt: skip
    assert commands.send(topic, *options).returncode == 0
    found = json.loads(commands.receive(topic, "--from", "earliest", "-o", "json").stdout)
    assert found["amqp-value"] == "x"
    assert found["properties"] == {
        "message-id": "m", "to": "t", "subject": "s", "reply-to": "r", "correlation-id": "c",
        "content-type": "text/plain", "group-id": "g",
    }  # fmt: skip
    assert found["application-properties"] == {"n": 5, "color": "red", "text": "5"}
    assert (found["header"]["durable"], found["header"]["priority"]) == (True, 7)
    assert 0 < found["header"]["ttl"] <= 60000
    assert found["message-annotations"]["x-opt-a"] is True
    assert found["message-annotations"]["event-streams-group-key"] == "k"


def test_files_are_one_message_each(commands: Commands, tmp_path: Path) -> None:
    topic = commands.topic()
    files = [tmp_path / name for name in ("a.bin", "b.bin")]
    for number, file in enumerate(files):
        file.write_bytes(bytes((number, 255, 10)))
    arguments = [part for file in files for part in ("--file", str(file))]
    assert commands.send(topic, *arguments, "--partition", "0", "--count", "2").returncode == 0
    lines = commands.receive(topic, "--from", "earliest", "-o", "json").stdout.splitlines()
    assert [json.loads(line)["data"] for line in lines] == [{"!binary": "0x00ff0a"}, {"!binary": "0x01ff0a"}] * 2


def test_typed_json_lines_copy_an_address_to_another(commands: Commands) -> None:
    here, there = commands.topic(), commands.topic()
    message = {
        "properties": {"message-id": {"!uuid": "12345678-1234-5678-1234-567812345678"}},
        "application-properties": {"n": {"!int": 5}, "d": {"!decimal64": "1.50"}, "s": {"!symbol": "red"}},
        "amqp-value": {"!map": [[{"!ubyte": 1}, "x"], [{"!symbol": "y"}, {"!array": [{"!int": 1}]}]]},
    }
    assert commands.send(here, "--json", text=json.dumps(message) + "\n\n").returncode == 0
    lines = commands.receive(here, "--from", "earliest", "-o", "json", "--types").stdout
    assert commands.send(there, "--json", text=lines).returncode == 0
    copied = json.loads(commands.receive(there, "--from", "earliest", "-o", "json", "--types").stdout)
    assert {name: copied[name] for name in message} == message


def test_long_output_has_a_line_for_each_field(commands: Commands) -> None:
    topic = commands.topic()
    commands.send(topic, "--body", "hello", "--property", "n=5")
    lines = commands.receive(topic, "--from", "earliest", "-o", "long").stdout.splitlines()
    assert "  n: 5" in lines
    assert lines[-2:] == ["data: hello", ""]


def test_positions_filters_and_partitions_choose_what_is_received(commands: Commands) -> None:
    topic = commands.topic()
    for number in range(4):
        commands.send(topic, "--partition", "0", "--body", f"b{number}", "--property", f"n={number}")
    assert commands.receive(topic, "--from", "2", "--partition", "0").stdout == "b2\nb3\n"
    assert commands.receive(topic, "--from", "earliest", "--partition", "1").stdout == ""
    assert commands.receive(topic, "--from", "earliest", "--filter", "application_properties.n = 1").stdout == "b1\n"
    assert commands.receive(topic, "--from", "earliest", "--selector", "n > 2").stdout == "b3\n"
    assert commands.receive(topic, "--from", "2099-01-01T00:00:00Z").stdout == ""
    assert commands.receive(topic, "--from", "2001-01-01").stdout == "b0\nb1\nb2\nb3\n"


def test_a_group_continues_after_what_was_accepted(commands: Commands) -> None:
    topic = commands.topic()
    assert commands.receive(topic, "--partition", "0", "--group", "g", "--wait", "0.2").returncode == 0
    commands.send(topic, "--partition", "0", text="a\nb\nc\n")
    member = ("--partition", "0", "--group", "g")
    assert commands.receive(topic, *member, "--count", "1").stdout == "a\n"
    assert commands.receive(topic, *member, "--count", "1", "--release").stdout == "b\n"
    assert commands.receive(topic, *member).stdout == "b\nc\n"


def test_follow_waits_for_what_comes_until_interrupted(commands: Commands) -> None:
    with subprocess.Popen(
        command("receive", commands.url, "chat/follow", "--follow"),
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as follower:  # fmt: skip
        assert commands.send("chat/follow", text="a\nb\n").returncode == 0  # a sender waits for a receiver
        assert follower.stdout is not None
        assert [follower.stdout.readline(), follower.stdout.readline()] == ["a\n", "b\n"]
        follower.send_signal(signal.SIGINT)
        _, errors = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 130
    assert "interrupted: received 2 messages" in errors


def test_lines_of_a_pipe_are_sent_as_they_come(commands: Commands) -> None:
    topic = commands.topic()
    with subprocess.Popen(
        command("send", commands.url, topic, "--partition", "0"),
        cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as sender:  # fmt: skip
        assert sender.stdin is not None
        print("first", file=sender.stdin, flush=True)
        wait_until(lambda: "first" in commands.receive(topic, "--from", "earliest").stdout, "the first line")
        print("second", file=sender.stdin, flush=True)
        sender.communicate(timeout=PATIENCE)
    assert sender.returncode == 0
    assert commands.receive(topic, "--from", "earliest").stdout == "first\nsecond\n"


def test_a_reader_that_has_enough_ends_the_command(commands: Commands) -> None:
    topic = commands.topic()
    commands.send(topic, "--body", "x" * 1000, "--count", "2000")
    piped = " ".join(["exec 3<&0;", "receive() {", *map(_quoted, command("receive")), '"$@"; };'])
    script = f"set -o pipefail; {piped} receive {commands.url} {topic} --from earliest | head -1"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "x" * 1000 + "\n")
    assert "Traceback" not in done.stderr


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -- requests


def test_a_request_prints_its_response(commands: Commands) -> None:
    found = commands.request("echo", "--body", "hi", "--property", "n=1", "-o", "json")
    assert found.returncode == 0, found.stderr
    response = json.loads(found.stdout)
    assert (response["data"], response["application-properties"]) == ("hi", {"n": 1})


def test_many_requests_say_how_long_they_took(commands: Commands) -> None:
    found = commands.request("echo", "--body", "hi", "--count", "5")
    assert found.stdout == "hi\n" * 5
    assert found.stderr.startswith("answered 5 messages")
    assert "p99" in found.stderr


def test_a_request_without_a_response_says_so(commands: Commands) -> None:
    topic = commands.topic()
    found = commands.request(topic, "--body", "hi", "--wait", "0.5")
    assert found.returncode == 1
    assert found.stderr == f"{topic}: no response came within 0.5 s\n"


# -- logging in


def test_a_user_logs_in_with_scram_over_tls(commands: Commands, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    url = f"amqps://alice@localhost:{commands.tls}"
    login = ("--ca", str(commands.authority.ca), "--password-file", str(secret))
    assert run("send", url, commands.topic(), "--body", "x", *login).returncode == 0
    secret.write_text("wrong\n")
    refused = run("send", url, "chat/x", "--body", "x", *login)
    assert refused.returncode == 1
    assert "refuses the login of alice: wrong user or password" in refused.stderr


def test_a_certificate_logs_in(commands: Commands) -> None:
    pair = commands.authority.client("carol")
    login = ("--ca", str(commands.authority.ca), "--cert", str(pair.cert), "--key", str(pair.key))
    url = f"amqps://localhost:{commands.tls}"
    assert run("send", url, commands.topic(), "--body", "x", *login).returncode == 0


@pytest.mark.parametrize("name", ["send", "receive", "request"])
def test_the_commands_print_nothing_but_their_summary_over_tls(commands: Commands, name: str) -> None:
    """Both the end of the AMQP connection and that of the command close the socket."""
    pair = commands.authority.client("carol")
    login = ("--ca", str(commands.authority.ca), "--cert", str(pair.cert), "--key", str(pair.key))
    address = {"send": f"events/{TOPICS[0]}", "receive": "chat/tls", "request": "echo"}[name]
    options = ("--wait", "0.2") if name == "receive" else ("--body", "x")
    done = run(name, f"amqps://localhost:{commands.tls}", address, *options, *login)
    assert done.returncode == 0, done.stderr
    summary = {"send": "sent 1 message in ", "receive": "received 0 messages in ", "request": ""}[name]
    assert re.fullmatch(rf"({re.escape(summary)}[\d.]+ s\n)?", done.stderr), done.stderr


def test_plain_without_tls_has_to_be_allowed(commands: Commands) -> None:
    env = {"SCOPEGATE_PASSWORD": PASSWORD}
    url = f"127.0.0.1:{commands.plain}"
    refused = run("send", url, "chat/x", "--body", "x", "--user", "alice", env=env)
    assert refused.returncode == 1
    assert "PLAIN" in refused.stderr
    assert PASSWORD not in refused.stderr
    login = ("--user", "alice", "--allow-plain-without-tls")
    allowed = run("send", url, commands.topic(), "--body", "x", *login, env=env)
    assert allowed.returncode == 0, allowed.stderr


# -- mistakes


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("send", "URL", "nowhere", "--body", "x"), 1, "amqp:not-found: 'nowhere'"),
        (("send", "amqp://127.0.0.1:1", "a", "--body", "x"), 1, "amqp://127.0.0.1:1 is not reached"),
        (("send", "amqp://u:secret@h", "a"), 2, "a password is not taken from there"),
        (("send", "http://h", "a"), 2, "allowed: amqp://, amqps://"),
        (("send", "amqp://u@h", "a", "--user", "v"), 2, "the URL names the user u, --user names v"),
        (("send", "amqp://u@127.0.0.1:1", "a", "--body", "x"), 1, "user u needs a password"),
        (("send", "URL", "a", "--body", "x", "--json"), 2, "exclude each other"),
        (("send", "URL", "a", "--count", "2"), 2, "--count repeats --body or --file"),
        (("send", "URL", "a", "--body", "x", "--property", "n"), 2, "needs NAME=VALUE"),
        (("send", "URL", "a", "--file", "/no/file"), 1, "/no/file: No such file or directory"),
        (("send", "URL", "a", "--body", "x", "--cert", "c"), 2, "--cert and --key belong together"),
        (("receive", "URL", "a", "--from", "tomorrow"), 2, "needs earliest, latest, an offset, or a time"),
        (("receive", "URL", "a", "--epoch", "1"), 2, "--epoch needs --group"),
        (("receive", "URL", "a", "--types"), 2, "--types belongs to -o json"),
        (("receive", "URL", "events/t0", "--partition", "7"), 1, "there is no partition '7'"),
        (("receive", "URL", "chat/x", "--count", "1", "--wait", "0.1"), 1, "received 0 messages"),
        (("receive", "URL", "events/t0", "--filter", "n >"), 1, "amqp:"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(commands: Commands, arguments: tuple[str, ...], code: int, words: str) -> None:
    found = run(*(commands.url if part == "URL" else part for part in arguments))
    assert (found.returncode, found.stdout) == (code, "")
    assert words in found.stderr
    assert "Traceback" not in found.stderr
    assert "secret" not in found.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"data":', "line 2, column 9: Expecting value"),
        ('{"body": 1}', "message on line 2: there is no section body"),
        ('{"amqp-value": {"!uuid": "x"}}', "line 2: no uuid"),
        ('{"data": 5}', "line 2: data is a text"),
    ],
)
def test_mistakes_in_json_lines_name_the_line(commands: Commands, line: str, words: str) -> None:
    topic = f"events/{TOPICS[0]}"
    found = commands.send(topic, "--json", text=f'{{"data":"x"}}\n{line}\n')
    assert found.returncode == 1
    assert words in found.stderr


def test_the_first_message_that_is_not_accepted_ends_the_command(commands: Commands) -> None:
    topic = commands.topic()
    huge = json.dumps({"message-annotations": {"x-opt-kafka-key": 5}, "data": "x"})
    found = commands.send(topic, "--json", text=f'{{"data":"x"}}\n{huge}\n')
    assert found.returncode == 1
    assert found.stderr.startswith("message 2 was not accepted: rejected: amqp:invalid-field")


# -- the guide


def test_every_command_of_the_guide_works(commands: Commands, tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "send-and-receive.md").read_text()
    lines = re.findall(r"^    (.*scopegate .*)$", guide, re.MULTILINE)
    assert len(lines) > 10
    body = "\n".join(line.replace("amqp://localhost", commands.url) for line in lines)
    shell = f'scopegate() {{ {" ".join(map(shlex.quote, command()))} "$@"; }}'
    script = f"set -exuo pipefail\n{shell}\n{body}\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert done.returncode == 0, done.stderr
    copied = (tmp_path / "orders.jsonl").read_text().splitlines()
    assert len(copied) == len(commands.receive("events/copies", "--from", "earliest").stdout.splitlines()) > 5


# -- another server


def test_the_commands_work_with_a_broker(artemis: Artemis, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(artemis.password)
    url, queue = artemis.url, f"commands-{uuid.uuid4()}"
    login = ("--user", artemis.user, "--password-file", str(secret), "--allow-plain-without-tls")
    assert run("send", url, queue, *login, text="a\nb\n").returncode == 0
    assert run("receive", url, queue, *login).stdout == "a\nb\n"
