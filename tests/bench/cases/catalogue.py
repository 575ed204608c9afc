"""The cases of issue 3, section 8: each measures both sides in one run and returns its figures."""

from __future__ import annotations

import compileall
import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

from tests.bench.bench_gateway import BenchGateway
from tests.bench.cases import artemis, direct, event_filters, idle_links, tls, watched
from tests.bench.cases import filters as bench_filters
from tests.bench.cases import scan as kafka_scan
from tests.bench.cases.cookies import sign_verify
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, beside, interleaved, medians, shaped
from tests.bench.kafka import cases, links, transactions
from tests.bench.push import api, protocols
from tests.bench.push import http as push
from tests.bench.running import StockRelay, cpu_seconds, idle, load, resident_kib
from tests.bench.shapes import shapes
from tests.support.project.parts import ROOT
from tests.support.servers.kafka import FastKafka

_names = itertools.count(1)
Case = Callable[[Effort], Iterator[Figure]]


def loadgen_self(effort: Effort) -> Iterator[Figure]:
    """The load generator against itself, nothing in between: the ceiling of every other figure."""
    for size in (100, 10_000):
        samples = [load({"kind": "self", "size": size, "seconds": effort.seconds}) for _ in range(effort.rounds)]
        middle = medians(samples)
        name = "loadgen_self" if size == 100 else "loadgen_self_10k"
        yield Figure(name, middle["rate"], "msg/s", details=middle)


def relays(effort: Effort) -> Iterator[Figure]:
    """Direct node and scope relay against the stock relay; unsettled, credit 1000."""
    with closing(StockRelay()) as stock, closing(BenchGateway()) as gateway:
        for path, shape in itertools.product(("direct", "relay"), effort.shapes):
            for size, target in ((100, 15.0), (10_000, None)) if shape in shapes.USUAL else ((100, 15.0),):
                ours, theirs = interleaved(
                    partial(_stream, gateway, path, size, effort, shape=shape),
                    partial(_stock, stock, size, effort, shape=shape),
                    effort.rounds,
                )
                yield _relay_figure(shaped(f"{path}_{_size(size)}", shape), ours, theirs, target)
            yield _unloaded(gateway, path, effort, shape)


def _relay_figure(name: str, ours: Sample, theirs: Sample, target: float | None) -> Figure:
    details = {**ours, "stock": theirs}
    return Figure(name, ours["rate"], "msg/s", theirs["rate"], "stock proton relay", target, details=details)


def _unloaded(gateway: BenchGateway, path: str, effort: Effort, shape: str) -> Figure:
    """Latency with one message on the way: no queue in front of it."""
    samples = [_stream(gateway, path, 100, effort, in_flight=1, shape=shape) for _ in range(effort.rounds)]
    middle = medians(samples)
    return Figure(shaped(f"{path}_latency", shape), middle["p50_us"], "us", details=middle)


CROSSINGS = {"none": ("cookie", 0.85), "cookie": ("cookie", 0.7), "rewrite": ("rewrite", 0.5)}
"""By what a message asks for: nothing, or an answer. The address that it is sent to, and the least share of direct."""


def crossing(effort: Effort) -> Iterator[Figure]:
    """From one scope to another, one way, without reply-to and with it, against a direct node and the same messages."""
    with closing(BenchGateway()) as gateway:
        for shape, (name, (kind, target)) in itertools.product(effort.shapes, CROSSINGS.items()):
            more: dict[str, Any] = {"shape": shape, "supported": kind == "cookie"}
            if name != "none":
                if shape == shapes.SYNTHETIC:
                    continue  # it has no properties
                more["reply_to"] = "direct/answers"
            ours = partial(_stream, gateway, kind, 100, effort, **more)
            direct_node = partial(_stream, gateway, "direct", 100, effort, **more)
            yield from beside(f"crossing_{name}", shape, ours, direct_node, effort.rounds, "a direct node", target)


def _size(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 else f"{size}"


def _stream(gateway: BenchGateway, path: str, size: int, effort: Effort, **more: Any) -> Sample:
    name = f"s{next(_names)}"
    receive_from = gateway.edge if path == "direct" else gateway.core
    plan = effort.plan(send_to=gateway.edge, receive_from=receive_from, size=size, **more)
    where = "direct" if path in ("direct", "relay") else "services"
    plan |= {"send_address": f"{path}/{name}", "receive_address": f"{where}/{name}"}
    return load(plan, gateway.pid)


def _stock(stock: StockRelay, size: int, effort: Effort, shape: str) -> Sample:
    where, address = ("127.0.0.1", stock.port), f"s{next(_names)}"
    ends = {"send_address": address, "receive_address": address, "send_to": where, "receive_from": where}
    # A thousand messages may wait in front of the slow side: give it time to come to its own pace.
    warmup = max(effort.warmup, 1.0 if effort.rounds > 1 else 0.2)
    return load({**effort.plan(size=size, shape=shape, **ends), "warmup": warmup})


def journal(effort: Effort) -> Iterator[Figure]:
    """What the journal costs a message on its way through a relay: without it, with it, with samples."""
    broker = FastKafka()
    try:
        topic = broker.create_topic()
        for kind, options in {"counts": "", "sample_100": "sample: 100", "sample_1": "sample: 1"}.items():
            with (
                closing(BenchGateway(broker.bootstrap)) as off,
                closing(BenchGateway(broker.bootstrap, f"topic: {topic}, {options}")) as on,
            ):
                for shape in effort.shapes:
                    yield from _journal(kind, shape, on, off, effort)
    finally:
        broker.stop()


def _journal(kind: str, shape: str, on: BenchGateway, off: BenchGateway, effort: Effort) -> Iterator[Figure]:
    before = _rows(on)
    sides = [partial(_stream, gateway, "relay", 100, effort, shape=shape) for gateway in (on, off)]
    ours, theirs = interleaved(*sides, effort.long_rounds)
    written, lost = (after - first for after, first in zip(_rows(on), before, strict=True))
    details, what = {**ours, "off": theirs, "rows": written, "lost_rows": lost}, "without journal"
    target = {"counts": 0.85, "sample_1": 0.5}.get(kind)
    name = shaped(f"journal_{kind}", shape)
    yield Figure(name, ours["rate"], "msg/s", theirs["rate"], what, target, details=details)
    name = shaped(f"journal_{kind}_cpu", shape)
    yield Figure(name, ours["cpu_us"], "us", theirs["cpu_us"], what, details=details)


def _rows(gateway: BenchGateway) -> tuple[float, float]:
    """Rows of its journal that were written, and that were lost."""
    found, name = gateway.metrics(), "scopegate_journal_rows_total"
    written = found.get(name + '{result="written"}', 0.0)
    return written, found.get(name, 0.0) - written


def replies(effort: Effort) -> Iterator[Figure]:
    """Requests and responses across scopes, cookie and rewriting against the same traffic untouched."""
    with closing(BenchGateway()) as gateway:
        for shape, (kind, target) in itertools.product(effort.shapes, (("cookie", 0.7), ("rewrite", 0.5))):
            ours, theirs = interleaved(
                partial(_exchange, gateway, kind, effort, shape),
                partial(_exchange, gateway, "plain", effort, shape),
                effort.rounds,
            )
            what = "requests and responses relayed untouched"
            details: dict[str, Any] = {**ours, "plain": theirs}
            name = shaped(kind, shape)
            yield Figure(name, ours["rate"], "rsp/s", theirs["rate"], what, target, details=details)
            # Both sides are this gateway: what it takes compares them where the load generator is the limit, too.
            details = {"others_cores": max(ours["others_cores"], theirs["others_cores"])}
            cost, plain = ours["cpu_us"], theirs["cpu_us"]
            name = shaped(f"{kind}_cpu", shape)
            yield Figure(name, cost, "us", plain, what, 1 / target, at_most=True, details=details)


def _exchange(gateway: BenchGateway, kind: str, effort: Effort, shape: str) -> Sample:
    name = f"r{next(_names)}"
    plan = effort.plan(kind="request", send_to=gateway.edge, receive_from=gateway.core, shape=shape)
    plan |= {"send_address": f"{kind}/{name}", "receive_address": f"services/{name}"}
    plan["annotated"] = kind == "cookie"
    if kind == "plain":
        plan |= {"reply_address": f"direct/{name}", "reply_to": f"home/{name}"}
    return load(plan, gateway.pid)


def memory(effort: Effort) -> Iterator[Figure]:
    """Resident memory per idle connection with one link."""
    with closing(BenchGateway()) as gateway:
        _hold(gateway, 50)  # what the first connections make the process load is not theirs
        before = resident_kib(gateway.pid)
        grown = _hold(gateway, effort.connections) - before
    details = {"connections": effort.connections, "before_kib": before, "grown_kib": grown}
    yield Figure("memory_per_connection", grown / effort.connections, "KiB", target=80.0, at_most=True, details=details)


def _hold(gateway: BenchGateway, count: int) -> int:
    """Opens idle connections, returns the gateway's resident memory while they are there."""
    with idle(gateway.edge[1], count, "direct/idle"):
        return resident_kib(gateway.pid)


def start(effort: Effort) -> Iterator[Figure]:
    """From the command to an answer of `/readyz`, without Kafka, and the processor time that it takes."""
    for name in ("gateway", "bridges", "policies"):  # as pip installs them
        compileall.compile_dir(ROOT / name, quiet=1)
    times, processor = [], []
    for _ in range(effort.rounds):
        with closing(BenchGateway()) as gateway:
            times.append(gateway.start_seconds)
            processor.append(cpu_seconds(gateway.pid))
    middle, least = sorted(times)[len(times) // 2], min(processor)
    yield Figure("start_to_ready", middle, "s", target=0.4, at_most=True, details={"all": times})
    yield Figure("start_processor", least, "s", target=0.5, at_most=True, details={"all": processor})


def cookies(effort: Effort) -> Iterator[Figure]:
    """Signing and verifying a cookie with the walk over the message, on one core; every cookie is another one."""
    for sealing, target in ((False, 200_000.0), (True, None)):
        rates = [sign_verify(sealing, effort.seconds / 4) for _ in range(effort.rounds)]
        name = "cookie_seal_open" if sealing else "cookie_sign_verify"
        yield Figure(name, max(rates), "1/s", target=target, details={"all": rates})


def filters(effort: Effort) -> Iterator[Figure]:
    """Filters alone, from encoded sections, on one core; and many of them at once against one after the other."""
    seconds = effort.seconds / 4
    for name, text, reds in (
        ("filter_matching", bench_filters.TWO_TERMS, 1),
        ("filter_scanning", bench_filters.TWO_TERMS, 1000),
        ("filter_numbers", bench_filters.TWO_NUMBERS, 1000),
    ):
        batch = bench_filters.messages(reds)
        details = {"with_walk": bench_filters.with_walk(text, batch, seconds)}
        if name == "filter_matching":
            details |= bench_filters.installable(batch, seconds)
        rate = max(bench_filters.one_filter(text, batch, seconds) for _ in range(effort.rounds))
        yield Figure(name, rate, "msg/s", target=400_000.0, details=details)
    for count in (3, 10, 100):
        texts, batch = bench_filters.filters_for(count), bench_filters.messages(1000)
        rate, alone = bench_filters.together(texts, batch, seconds), bench_filters.each_alone(texts, batch, seconds)
        yield Figure(f"filters_{count}", rate, "msg/s", alone, "one filter after the other")
    batch = bench_filters.messages(1000)
    for name, form in bench_filters.MANY.items():
        rate = bench_filters.together(bench_filters.many_filters(form), batch, seconds)
        yield Figure(f"filters_1000_{name}", rate, "msg/s", target=200_000.0)


def columns(effort: Effort) -> Iterator[Figure]:
    """Filters over columns: Arrow on one core, a Spark Column against a Python UDF on one core."""
    from tests.bench.cases import columns as bench_columns  # pyarrow and Spark: loaded for this case only

    rows, seconds = bench_columns.batch(), effort.seconds
    lookup = bench_columns.looking_up(rows, seconds)
    details = {"different_names": bench_columns.filtering(bench_columns.irregular(rows), seconds)}
    rate = bench_columns.filtering(rows, seconds)
    yield Figure("filter_arrow", rate, "rows/s", target=20e6, details={**details, "map_lookup": lookup})
    promoted = bench_columns.filtering(bench_columns.with_fields(rows), seconds)
    yield Figure("filter_arrow_promoted", promoted, "rows/s", target=20e6)
    yield Figure("rows_converted", bench_columns.converting(seconds), "msg/s")
    with bench_columns.spark() as session:
        # twenty times the rows for the Column: what starting a job takes is then little on both sides
        frames = [bench_columns.cached(session, max(1, effort.records // rows.num_rows // part)) for part in (1, 20)]
        rounds = effort.long_rounds + 1
        sides = [(bench_columns.by_column(frames[0]), bench_columns.by_udf(frames[1])) for _ in range(rounds)]
        ours, theirs = (medians(list(side)) for side in zip(*sides[1:], strict=True))  # the first round compiles
        details = {**ours, "udf": theirs, "cpu_ratio": theirs["cpu_us"] / ours["cpu_us"]}
        yield Figure("filter_column", ours["rate"], "rows/s", theirs["rate"], "Python UDF", 20.0, details=details)


def archive(effort: Effort) -> Iterator[Figure]:
    """A topic archived through Spark's Kafka source."""
    from tests.bench.cases import archive as bench_archive  # pyarrow and Spark: loaded for this case only

    yield from bench_archive.archive(effort)


def replay(effort: Effort) -> Iterator[Figure]:
    """An archive written to a topic, in transactions."""
    from tests.bench.cases import replay as bench_replay  # pyarrow and Spark: loaded for this case only

    yield from bench_replay.replay(effort)


def source(effort: Effort) -> Iterator[Figure]:
    """The AMQP data source in Spark against Spark's own Kafka source."""
    from tests.bench.cases import source as bench_source  # Spark: loaded for this case only

    yield from bench_source.source(effort)


CASES: dict[str, Case] = {
    "archive": archive,
    "artemis": artemis.artemis,
    "columns": columns,
    "cookies": cookies,
    "crossing": crossing,
    "crowds": direct.crowds,
    "filters": filters,
    "filters_many": event_filters.filters_many,
    "loadgen": loadgen_self,
    "relays": relays,
    "replay": replay,
    "replies": replies,
    "reply queue": direct.reply_queue,
    "journal": journal,
    "watched": watched.watched,
    "kafka": cases.rates,
    "links": links.links,
    "tls": tls.tls,
    "idle": idle_links.idle_links,
    "sharing": cases.sharing,
    "latency": cases.latency,
    "memory": memory,
    "push": push.push,
    "push_protocols": protocols.push_protocols,
    "subscription_api": api.subscription_api,
    "scan": kafka_scan.scan,
    "source": source,
    "start": start,
    "transactions": transactions.transactions,
}
