"""The suite's own instruments, tried on a real broker: what a test of the gateway sees is what was sent."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest
from proton import Message

from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.amqp.proton_clients import Failed, Login, Raw, echo, receive, request, respond, send
from tests.support.gateway import process as processes
from tests.support.gateway.process import Process, free_port, fresh_folder, ports, socket_folder, wait_until
from tests.support.project import commands
from tests.support.project.commands import program
from tests.support.project.parts import folder
from tests.support.servers.kafka import KafkaBroker, escaped, led, partitions_of
from tests.support.servers.servers import Artemis, Redis
from tests.support.spark.spark_classes import NAME


def test_a_scripted_peer_sends_and_receives_through_artemis(artemis: Artemis) -> None:
    peer = Peer(artemis.port).sasl_plain("admin", "admin")
    assert "ANONYMOUS-RELAY" in peer.negotiate().offered_capabilities.items
    peer.attach_sender("support/scripted")
    peer.expect("flow", handle=0)
    payload = message(b"hello", subject="greeting", app={"n": 1})
    peer.transfer(payload)
    peer.expect("disposition", role=RECEIVER, first=0, settled=True, state="accepted")
    peer.attach_receiver("support/scripted", handle=1)
    peer.flow(handle=1, link_credit=1)
    transfer = peer.expect("transfer", handle=1, message_format=0)
    got = sections(transfer.payload)
    assert got["data"] == b"hello"
    assert got["properties"] == {"subject": "greeting"}
    assert got["application_properties"] == {"n": 1}
    peer.disposition(transfer.delivery_id, "accepted")
    peer.detach(1).until("detach", handle=1, closed=True)
    peer.end().until("end")
    peer.close().expect("close")
    peer.expect_eof()


def test_two_scripted_peers_talk_frame_by_frame() -> None:
    with Listener() as listener, Peer(listener.port) as client:
        server = listener.accept()
        client.send_raw(frames.SASL_HEADER)
        server.expect_header(frames.SASL_HEADER)
        server.send("sasl_mechanisms", sasl_server_mechanisms=["PLAIN"])
        client.expect("sasl_mechanisms", sasl_server_mechanisms=frames.Array("symbol", ("PLAIN",)))
        client.attach("l", SENDER, 3, target=frames.target("a", capabilities=["queue"]))
        attach = server.expect("attach", name="l", role=SENDER, handle=3, target="a")
        assert attach.raw.endswith(frames.performative("attach", **given(attach)))
        server.detach(3, error=frames.error("amqp:not-found", "no such node"))
        client.expect("detach", handle=3, error="amqp:not-found")
        server.send_raw(b"\0\0\0\x08\x02\0\0\0").disposition(4, frames.composite("modified"), last=9)
        client.expect("disposition", first=4, last=9, state={"delivery_failed": None})
        server.end().close()
        with pytest.raises(AssertionError, match="expected open"):
            client.expect("open")


def given(frame: frames.Frame) -> dict[str, object]:
    """Return an attach's fields with its termini encoded again."""
    termini = {name: frames.composite(name, **frame.fields[name]) for name in ("source", "target")}
    return {**frame.fields, **termini}


def test_proton_clients_send_receive_and_ask(artemis: Artemis) -> None:
    login = Login(artemis.port, artemis.user, artemis.password)
    raw = message(b"exactly", footer={"x": 1})
    sender = send(login, "support/proton", [Message(body="one"), Raw(raw), *[Message(body="more")] * 1500])
    assert {outcome.name for outcome in sender.finish()} == {"accepted"}
    received = receive(login, "support/proton", 1502).attached().finish()
    assert received[0].message.body == "one"
    assert received[1].raw.endswith(raw)
    responder = respond(login, "support/echo", echo, annotated=True).attached()
    responses = request(login, "support/echo", [Message(id=n, body=f"hello {n}") for n in range(3)])
    assert [(each.message.correlation_id, each.message.body) for each in responses] == [
        (0, "hello 0"),
        (1, "hello 1"),
        (2, "hello 2"),
    ]
    responder.stop()


def test_proton_clients_say_why_they_were_refused(artemis: Artemis) -> None:
    with pytest.raises(Failed, match="unauthorized"):
        receive(Login(artemis.port, "admin", "wrong"), "support/proton", 1).attached()


@pytest.mark.parametrize("library", ["jms", "rhea"])
def test_unmodified_clients_work_as_commands(artemis: Artemis, library: str) -> None:
    client = Foreign(library, artemis.port, artemis.user, artemis.password, alone=True)
    responder = client.run("respond", f"support/{library}", count=2).attached()
    responses = client.run("request", f"support/{library}", count=2, body="hello {n}").finish()
    assert [line["body"] for line in responses] == ["re: hello 0", "re: hello 1"]
    assert [line["correlation_id"] for line in responses] == ["request-0", "request-1"]
    assert len(responder.finish()) == 2
    receiver = client.run("receive", f"support/{library}/q", count=3).attached()
    sent = client.run("send", f"support/{library}/q", count=3).finish()
    assert [line["outcome"] for line in sent] == ["accepted"] * 3
    assert [line["body"] for line in receiver.finish()] == ["0", "1", "2"]
    wrong = Foreign(library, artemis.port, artemis.user, "wrong", alone=True).run("send", "support/q").fail()
    assert "uthenticat" in json.dumps(wrong)


def test_a_broker_has_mapped_the_classes_that_are_kept(own_kafka: KafkaBroker) -> None:
    archive = (folder("kafka-classes") / NAME).resolve()
    assert own_kafka.process is not None
    assert str(archive) in Path(f"/proc/{own_kafka.process.pid}/maps").read_text()


def test_kafka_comes_back_at_the_same_address(own_kafka: KafkaBroker) -> None:
    topic = own_kafka.create_topic(partitions=2)
    own_kafka.kill()
    assert not own_kafka.answers()
    own_kafka.restart()
    assert len(own_kafka.metadata().topics[topic].partitions) == 2


def test_leaders_of_partitions_are_found_that_a_client_has_not_heard_of(kafka_broker: KafkaBroker) -> None:
    """Without asking anew it would call a partition that was added later unknown, for minutes."""
    topic, admin = kafka_broker.create_topic(), kafka_broker.admin()
    assert led(admin, partitions_of(topic, 1))
    kafka_broker.grow(topic, 2)
    wait_until(lambda: led(admin, partitions_of(topic, 2)), "its leaders", 20)


def test_redis_serves(redis_server: Redis) -> None:
    with Peer(redis_server.port) as client:
        assert client.send_raw(b"PING\r\n").read(7) == b"+PONG\r\n"


def test_servers_of_one_name_have_a_log_each() -> None:
    """Lines of a gateway that ends late were counted by a test with another gateway."""
    said = "import signal, sys; print(sys.argv[1], flush=True); signal.pause()"
    first, second = (Process("talker", [sys.executable, "-c", said, word]) for word in ("one", "two"))
    try:
        for process, word in ((first, "one"), (second, "two")):
            wait_until(lambda process=process: process.text().endswith("\n"), "what it says")
            assert process.text() == f"{word}\n"
    finally:
        for process in (first, second):
            process.discard()


def test_ports_are_given_out_once() -> None:
    given = [*ports(20), free_port()]
    assert len(set(given)) == 21


def test_kafka_reads_paths_with_characters_beyond_latin_1() -> None:
    assert escaped("log.dirs=/a b/\u00fc/\u015f/\U0001f600\nnode.id=1\n") == (
        "log.dirs=/a b/\\u00fc/\\u015f/\\ud83d\\ude00\nnode.id=1\n"
    )


def test_a_socket_has_room_in_a_project_with_a_long_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "WORK", tmp_path / ("long" * 25))
    assert len(os.fsencode(fresh_folder("admin"))) > 107
    place = socket_folder("admin")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "gateway-1.1234567.sock"))
    assert place.stat().st_mode & 0o077 == 0


def test_a_server_is_found_where_only_root_has_it_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "nats-server"
    server.write_text("")
    server.chmod(0o755)
    monkeypatch.setattr(commands, "ELSEWHERE", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert program("nats-server") == str(server)
