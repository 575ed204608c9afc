"""What grows in C when there is no memory for it: MemoryError, and what was there stays there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.project.parts import ROOT

SCRIPT = """
import gc
import _testcapi
from confluent_kafka import Producer
from bridges.kafka.produce import _produce, client as outbox
from gateway.amqp.proton import batch as turn


def grown(step, *args):
    '''Do it with the first allocation failing, then the second, until it succeeds; how often it failed.'''
    for first in range(20):
        _testcapi.set_nomemory(first, first + 1)
        try:
            step(*args)
        except MemoryError:
            continue
        finally:
            _testcapi.remove_mem_hooks()
        return first


{case}
print("held")
"""
UNSETTLED = """
sent = turn.Unsettled(None)
for number in range(1, 17):
    sent.add(number, 10, number)
assert grown(sent.add, 17, 10, 17) > 0
assert sent.contexts == list(range(1, 18)) and sent.bytes == 170
assert sent.take(1) == 1 and sent.take_all() == list(range(2, 18))
"""
OUTBOX = """
kept = _produce.Outbox(Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}))
for number in range(1, 400):
    assert grown(kept.put, "topic", -1, None, b"v", None, "owner", [number]) is not None
    assert len(kept) == number
contexts = [each[0] for each in gc.get_referents(kept) if type(each) is list]
assert sorted(contexts) == list(range(1, 400))
"""


@pytest.mark.parametrize("case", [UNSETTLED, OUTBOX], ids=["unsettled", "outbox"])
def test_what_grows_is_whole_after_a_failure(case: str) -> None:
    command = [sys.executable, "-X", "faulthandler", "-c", SCRIPT.replace("{case}", case)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr[-3000:]
