"""azure-eventhub, unmodified: sends what the arguments say, or subscribes with checkpoints, and prints JSON lines.

python_client.py send CONNECTION HUB
python_client.py subscribe CONNECTION HUB GROUP COUNT [CHECKPOINTS]
python_client.py read CONNECTION HUB PARTITION COUNT offset|sequence|from|time|earliest VALUE
"""

from __future__ import annotations

import json
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from azure.eventhub import CheckpointStore, EventData, EventHubConsumerClient, EventHubProducerClient

_PERSISTENT: dict[str, Any] = {"retry_total": 300, "retry_mode": "fixed", "retry_backoff_factor": 0.1}


def tell(event: str, **fields: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"event": event, **fields}), flush=True)


class FileCheckpoints(CheckpointStore):
    """Checkpoints in a file, so that the next process begins where this one ended; owners in memory."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._owners: dict[str, dict[str, Any]] = {}
        known = file is not None and file.exists()
        self._checkpoints: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file and known else {}

    def list_ownership(self, *where: str, **_: Any) -> list[dict[str, Any]]:
        return list(self._owners.values())

    def claim_ownership(self, ownership_list: Any, **_: Any) -> list[dict[str, Any]]:
        owned = [{**each, "etag": "mine", "last_modified_time": time.time()} for each in ownership_list]
        self._owners |= {each["partition_id"]: each for each in owned}
        return owned

    def list_checkpoints(self, *where: str, **_: Any) -> list[dict[str, Any]]:
        return list(self._checkpoints.values())

    def update_checkpoint(self, checkpoint: Any, **_: Any) -> None:
        with self._lock:
            self._checkpoints[checkpoint["partition_id"]] = dict(checkpoint)
            if self._file is not None:
                new = self._file.with_suffix(".new")
                new.write_text(json.dumps(self._told()))
                new.replace(self._file)  # whole, even if we are killed

    def _told(self) -> dict[str, dict[str, Any]]:
        """The checkpoints, with the sequence number also under the name that the other clients have for it."""
        return {name: {**each, "sequenceNumber": each["sequence_number"]} for name, each in self._checkpoints.items()}


def send(connection: str, hub: str) -> None:
    """Send the usual events: a single one, a batch, one with a key."""
    with EventHubProducerClient.from_connection_string(connection, eventhub_name=hub) as producer:
        tell("hub", partitions=producer.get_eventhub_properties()["partition_ids"])
        single = EventData(b"python single")
        single.properties = {"color": "red"}
        producer.send_event(single, partition_id="0")
        batch = producer.create_batch(partition_id="1")
        for number in range(3):
            batch.add(EventData(b"python %d" % number))
        producer.send_batch(batch)
        producer.send_batch([EventData(b"python keyed")], partition_key="key")
        partition = producer.get_partition_properties("1")
        last, offset = partition["last_enqueued_sequence_number"], partition["last_enqueued_offset"]
        tell("partition", last=last, offset=offset)


class Receiver:
    """Tells each event that is received; closes the client after the last one."""

    def __init__(self, client: EventHubConsumerClient, count: int, *, checkpoints: bool) -> None:
        self._client = client
        self._left = count
        self._checkpoints = checkpoints
        self._lock = threading.Lock()
        self._done = threading.Event()

    def receive(self, **how: Any) -> None:
        """Receive until all are there."""
        hooks = {"on_event": self._on_event, "on_error": self._on_error}
        thread = threading.Thread(target=self._client.receive, kwargs={**hooks, **how}, daemon=True)
        thread.start()
        self._done.wait()
        self._client.close()
        thread.join(10)

    def _on_event(self, context: Any, event: EventData) -> None:
        key = event.partition_key.decode() if event.partition_key else None
        found = {_text(name): _text(value) for name, value in (event.properties or {}).items()}
        with self._lock:
            tell(
                "message", partition=context.partition_id, body=event.body_as_str(), partitionKey=key,
                sequenceNumber=event.sequence_number, offset=event.offset, properties=found,
                enqueued=round(event.enqueued_time.timestamp() * 1000) if event.enqueued_time else None,
            )  # fmt: skip
            if self._checkpoints:
                context.update_checkpoint(event)
            self._left -= 1
            if self._left <= 0:
                self._done.set()

    def _on_error(self, context: Any, error: Exception) -> None:
        tell("error", text=str(error), partition=context.partition_id if context else None)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def subscribe(connection: str, hub: str, group: str, count: str, *file: str) -> None:
    """Receive all partitions, with checkpoints."""
    store = FileCheckpoints(Path(file[0]) if file else None)
    client = EventHubConsumerClient.from_connection_string(
        connection, group, eventhub_name=hub, checkpoint_store=store, load_balancing_interval=0.2, **_PERSISTENT
    )
    Receiver(client, int(count), checkpoints=True).receive(starting_position="-1")


def read(connection: str, hub: str, partition: str, count: str, kind: str, value: str) -> None:
    """Receive one partition from a position on."""
    client = EventHubConsumerClient.from_connection_string(connection, "$Default", eventhub_name=hub)
    start: dict[str, Any] = {"earliest": "-1", "offset": value}
    if kind in ("sequence", "from"):
        start[kind] = int(value)
    elif kind == "time":
        start[kind] = datetime.fromtimestamp(int(value) / 1000, UTC)
    how = {"starting_position": start[kind], "starting_position_inclusive": kind == "from"}
    Receiver(client, int(count), checkpoints=False).receive(partition_id=partition, **how)


if __name__ == "__main__":
    {"send": send, "subscribe": subscribe, "read": read}[sys.argv[1]](*sys.argv[2:])
