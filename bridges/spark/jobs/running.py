"""A Spark session for one job, and the signals that stop the job gracefully."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from bridges.spark.archive.delta import CONF
from bridges.spark.jars import DELTA, JarSet, find_jars
from bridges.spark.session import SparkEngine, check_java, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def running(
    name: str, engine: SparkEngine, jar_sets: Sequence[JarSet] = ()
) -> Iterator[tuple[SparkSession, threading.Event]]:
    """A session, and an event that SIGTERM and Ctrl-C set: the job then stops after its current commit or batch."""
    check_java()
    jars = find_jars(jar_sets, engine.jars)
    conf = {**(CONF if DELTA in jar_sets else {}), **engine.conf}
    engine.say(f"starting Spark with master {engine.master}")
    with stopping() as (stop, listen):
        spark = open_session(name, master=engine.master, jars=jars, conf=conf)
        listen()  # again: Spark has installed its own handler of Ctrl-C
        try:
            with without_old_garbage():
                yield spark, stop
        finally:
            with suppress(Exception):  # if Java has died, the job has reported it
                spark.stop()


@contextmanager
def without_old_garbage() -> Iterator[None]:
    """Freeze the present objects for the garbage collector, since a long job keeps them anyway.

    Otherwise one step in hundreds would scan all modules of Spark and Arrow, which took 80 ms.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def stopping() -> Iterator[tuple[threading.Event, Callable[[], None]]]:
    """An event that SIGTERM and Ctrl-C set, and a function that installs the handlers (again).

    A second signal ends the process at once.
    """
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        if stop.is_set():
            os._exit(1)  # unfinished work is in no commit and in no committed transaction
        stop.set()

    def listen() -> None:
        for each in before:
            signal.signal(each, on_signal)

    main = threading.current_thread() is threading.main_thread()
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)} if main else {}
    listen()
    try:
        yield stop, listen
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
