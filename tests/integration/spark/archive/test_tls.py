"""The data source and its sink over TLS: a password or a certificate lets them in, and mistakes are one sentence."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row

from bridges.spark.datasource.options import read_options, write_options
from bridges.spark.datasource.source import BatchReader, ScopeGateDataSource
from bridges.spark.errors import PipelineError
from gateway.amqp.sasl.user_file import make_entry, put_user
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.servers.certs import Authority
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import consumed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = "correct-horse-9"


@dataclass
class Place:
    """A gateway that takes nobody without TLS: ports for passwords and for certificates, and files to enter with."""

    passwords: str
    certificates: str
    files: dict[str, Path]

    def options(self, way: str, **more: str) -> dict[str, str]:
        """Options of the data source, with which one gets in."""
        ca = str(self.files["ca"])
        if way == "certificate":
            own = {name: str(self.files[name]) for name in ("cert", "key")}
            return {"url": self.certificates, "ca": ca, **own, **more}
        return {"url": self.passwords, "ca": ca, "user": "bob", "passwordFile": str(self.files["password"]), **more}


@pytest.fixture(scope="module")
def place(kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    server, own = authority.server(), authority.client("engineer")
    other = stranger.client("engineer", file="other")
    document = Document()
    document.data["gateway"] = {"http": "off"}
    document.kafka(kafka_broker.bootstrap)
    document.scope()["access"] = [{"who": ["bob", "engineer"], "may": ["send", "receive", "info"], "on": "events/**"}]
    (folder / "users.yaml").write_text(put_user("", "bob", make_entry(PASSWORD, salt=b"salt of a test!!")))
    tls = {"cert": str(server.cert), "key": str(server.key)}
    listener = document.scope()["listen"][0]
    listener |= {"sasl": ["plain", "scram-sha-256"], "users": str(folder / "users.yaml"), "tls": tls}
    trusting = {**tls, "client_ca": str(authority.ca), "require_client_cert": True}
    certificates = document.add_listener(sasl=["external"], tls=trusting)
    (folder / "password").write_text(f"{PASSWORD}\n")
    files = {"ca": authority.ca, "cert": own.cert, "key": own.key, "password": folder / "password",
             "stranger": stranger.ca, "other cert": other.cert, "other key": other.key}  # fmt: skip
    gateways = Gateways()
    try:
        gateways(document.text)
        yield Place(f"amqps://localhost:{document.edge}", f"amqps://localhost:{certificates}", files)
    finally:
        gateways.close()


@pytest.mark.parametrize("way", ["password", "certificate"])
def test_rows_are_written_and_read(spark: SparkSession, kafka_broker: KafkaBroker, place: Place, way: str) -> None:
    topic = kafka_broker.create_topic()
    spark.dataSource.register(ScopeGateDataSource)
    options = place.options(way, address=f"events/{topic}")
    frame = spark.createDataFrame([Row(b"%d" % number) for number in range(20)], "body binary").coalesce(1)
    frame.write.format("scopegate").options(**options).mode("append").save()
    assert [record.value for record in consumed(kafka_broker, topic)] == [b"%d" % number for number in range(20)]
    rows = spark.read.format("scopegate").options(**options).load().orderBy("offset").collect()
    assert [bytes(row.body) for row in rows] == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize(
    ("way", "changed", "said"),
    [
        ("password", {"ca": "stranger"}, "is not reached: its certificate is not believed: "),
        ("password", {"ca": "password"}, ": {password}: holds no certificate in PEM"),
        ("password", {"user": None}, "of nobody in particular: it offers PLAIN, SCRAM-SHA-256, not ANONYMOUS"),
        ("password", {"passwordFile": "ca"}, "refuses the login of bob: wrong user or password"),
        ("certificate", {"cert": None, "key": None}, "it may be that it wants a certificate (options cert and key)"),
        ("certificate", {"cert": "other cert", "key": "other key"}, "it does not believe our certificate"),
        ("certificate", {"key": "other key"}, ": the key does not belong to the certificate"),
        ("certificate", {"key": None}, "format scopegate: options cert and key belong together"),
        ("certificate", {"url": "amqp://h"}, "format scopegate: option cert is for amqps://, not amqp://h:5672"),
        ("certificate", {"key": "/nowhere"}, "key /nowhere is not a file on the machine of the task"),
    ],
)
def test_mistakes_are_one_sentence(place: Place, way: str, changed: dict[str, Any], said: str) -> None:
    options = place.options(way, address="events/t")
    for name, value in changed.items():
        options.pop(name)
        if value is not None:
            options[name] = str(place.files.get(value, value))
    with pytest.raises(PipelineError) as raised:
        BatchReader(read_options(options)).partitions()
    text = str(raised.value)
    assert said.format(password=place.files["password"]) in text
    assert "\n" not in text
    assert PASSWORD not in text


def test_what_a_server_says_in_tls_alone_is_told(authority: Authority) -> None:
    """Ours closes the socket without an alert, for asyncio does so; others tell what they want."""
    own = authority.server(file="telling")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    context.load_verify_locations(authority.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            accepted, _ = server.accept()
            with accepted, contextlib.suppress(ssl.SSLError):
                context.wrap_socket(accepted, server_side=True)

        thread = threading.Thread(target=serve)
        thread.start()
        given = {"url": f"amqps://localhost:{server.getsockname()[1]}", "address": "a", "ca": str(authority.ca)}
        with pytest.raises(PipelineError, match=r"certificate required \(options cert and key\)$"):
            BatchReader(read_options(given)).partitions()
        thread.join()


def test_a_writer_has_the_same_options(place: Place) -> None:
    for way in ("password", "certificate"):
        given = place.options(way, address="a")
        assert write_options(given).credentials() == read_options(given).credentials()
