"""An in-memory Kafka inside this process, for quick starts and fast tests: librdkafka's mock cluster.

librdkafka contains it (rdkafka_mock.h), but the Python binding reaches it only through a test
setting that cannot create topics. So its public C functions are called through `ctypes`. Limits: memory
only, about 5 MB kept per partition, no lookup by timestamp, no topic ids.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bridges.kafka.common.librdkafka import function as _function

_PRODUCER: Final = 0
_TOPIC_EXISTS: Final = 36
_pointer: Final = ctypes.c_void_p


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block all signals in this thread; threads that it starts inherit that.

    The mock cluster's thread ends at the first interrupted call, so it must never be the one that takes a signal.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class EmbeddedKafka:
    """One mock broker; it lives until `close`."""

    def __init__(self) -> None:
        reason = ctypes.create_string_buffer(256)
        configuration = _function("rd_kafka_conf_new", _pointer)()
        set_value = _function(
            "rd_kafka_conf_set", ctypes.c_int, _pointer, *[ctypes.c_char_p] * 3, ctypes.c_size_t
        )
        set_value(configuration, b"log_level", b"0", reason, len(reason))
        new = _function("rd_kafka_new", _pointer, ctypes.c_int, _pointer, ctypes.c_char_p, ctypes.c_size_t)
        self._client = new(_PRODUCER, configuration, reason, len(reason))
        if not self._client:
            raise RuntimeError(f"the embedded Kafka did not start: {reason.value.decode(errors='replace')}")
        new_cluster = _function("rd_kafka_mock_cluster_new", _pointer, _pointer, ctypes.c_int)
        with _signals_blocked():
            self._cluster = new_cluster(self._client, 1)
        bootstrap = _function("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p, _pointer)
        self.bootstrap: Final[str] = bootstrap(self._cluster).decode()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, unless it exists."""
        create = _function(
            "rd_kafka_mock_topic_create", ctypes.c_int, _pointer, ctypes.c_char_p, *[ctypes.c_int] * 2
        )
        code = create(self._cluster, name.encode(), partitions, 1)
        if code not in (0, _TOPIC_EXISTS):
            raise RuntimeError(f"the embedded Kafka did not create the topic {name!r} (error {code})")

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create several; this may take a second, because the mock cluster's thread sleeps between requests."""
        for name, partitions in topics.items():
            self.create_topic(name, partitions)

    def set_reachable(self, reachable: bool) -> None:
        """Make the broker refuse and drop connections, or serve again, to try out an outage."""
        name = "rd_kafka_mock_broker_set_up" if reachable else "rd_kafka_mock_broker_set_down"
        _function(name, ctypes.c_int, _pointer, ctypes.c_int32)(self._cluster, 1)

    def be_silent(self) -> None:
        """Answer no request from now on, though connections stay, to try out such an outage."""
        delay = _function("rd_kafka_mock_broker_set_rtt", ctypes.c_int, _pointer, ctypes.c_int32, ctypes.c_int)
        delay(self._cluster, 1, 3_600_000)

    def close(self) -> None:
        """Stop the broker; its records are lost."""
        if self._cluster:
            _function("rd_kafka_mock_cluster_destroy", None, _pointer)(self._cluster)
            _function("rd_kafka_destroy", None, _pointer)(self._client)
            self._cluster = None
