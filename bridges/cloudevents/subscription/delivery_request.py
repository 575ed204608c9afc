"""The `x-` settings: delivery settings that a subscription requests within the policy's limits. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from bridges.cloudevents.model.members import InvalidMember, Members, duration, integer, one_of
from bridges.cloudevents.model.values import (
    Batching,
    DeliverySettings,
    Json,
    Mistake,
    Mode,
    Order,
    RetryLimits,
    SinkProtocol,
)
from policies.model.scopes.subscriptions import DeliverySection
from policies.values.units import parse_rate, parse_size

_DAY: Final = 86_400_000
_MOST_BYTES: Final = 2**30
_BATCH: Final = Batching(100, 2**18, 0.1)
"""The default limits of `x-mode: batched`."""


class DeliveryRequest(NamedTuple):
    """The requested delivery settings; None means the policy's."""

    order: Order | None
    connections: int | None
    timeout: float | None
    rate: float | None
    retry_min: float | None
    retry_max: float | None
    retry_attempts: int | None
    retry_within: float | None
    batch: Batching | None


_delivery_request: Final = lru_cache(256)(DeliveryRequest)
_delivery_settings: Final = lru_cache(256)(DeliverySettings)
"""Equal ones are one object: many subscriptions have the same settings."""


def delivery_request(members: Members, protocol: SinkProtocol | None, mode: Mode) -> DeliveryRequest:
    """Parse the settings; `exceeded` checks the policy's limits."""
    retry = members.section("x-retry")
    found = _delivery_request(
        order=members.take("x-order", one_of("key", "partition", "none"), None),
        connections=members.take("x-connections", integer(1, 256), None),
        timeout=members.take("x-timeout", duration(1, 600_000), None),
        rate=members.take("x-rate", _rate, None),
        retry_min=retry.take("min", duration(1, _DAY), None),
        retry_max=retry.take("max", duration(1, _DAY), None),
        retry_attempts=retry.take("attempts", integer(1, 1000), None),
        retry_within=retry.take("within", duration(1, 365 * _DAY), None),
        batch=_batch(members, mode) if protocol in (SinkProtocol.HTTP, None) else None,
    )
    retry.finish()
    if found.retry_min is not None and found.retry_max is not None and found.retry_min > found.retry_max:
        members.report("x-retry", "min must not be longer than max")
    return found


def effective(request: DeliveryRequest, policy: DeliverySection) -> DeliverySettings:
    """The requested settings, reduced to the policy's limits."""
    rate = None if policy.rate is None else policy.rate.number * 1000 / policy.rate.per_ms
    retry, longest = policy.retry, policy.retry.max.seconds
    first = min(max(_or(request.retry_min, retry.min.seconds), retry.min.seconds), longest)
    return _delivery_settings(
        order=request.order or policy.order,
        connections=min(_or(request.connections, policy.connections), policy.connections),
        window=policy.window,
        bytes=policy.bytes,
        timeout=min(_or(request.timeout, policy.timeout.seconds), policy.timeout.seconds),
        rate=min((each for each in (rate, request.rate) if each is not None), default=None),
        retry=RetryLimits(
            min=first,
            max=max(first, min(_or(request.retry_max, longest), longest)),
            attempts=min(_or(request.retry_attempts, retry.attempts), retry.attempts),
            within=min(_or(request.retry_within, retry.within.seconds), retry.within.seconds),
        ),
        batch=request.batch and request.batch._replace(size=min(request.batch.size, policy.bytes)),
    )


def exceeded(request: DeliveryRequest, policy: DeliverySection) -> list[Mistake]:
    """The requests beyond the policy's limits."""
    retry, batch = policy.retry, request.batch
    most = [
        ("x-connections", request.connections, policy.connections),
        ("x-timeout", request.timeout, policy.timeout.seconds),
        ("x-retry/max", request.retry_max, retry.max.seconds),
        ("x-retry/min", request.retry_min, retry.max.seconds),
        ("x-retry/attempts", request.retry_attempts, retry.attempts),
        ("x-retry/within", request.retry_within, retry.within.seconds),
        ("x-batch/bytes", batch and batch is not _BATCH and batch.size, policy.bytes),
    ]
    rate = None if policy.rate is None else policy.rate.number * 1000 / policy.rate.per_ms
    if rate is not None:
        most.append(("x-rate", request.rate, rate))
    found = [(name, f"at most {limit:g} here") for name, requested, limit in most if requested and requested > limit]
    if request.retry_min is not None and request.retry_min < retry.min.seconds:
        found.append(("x-retry/min", f"at least {retry.min.seconds:g}s here"))
    return [Mistake(f"/protocolsettings/{name}", message) for name, message in found]


_N = TypeVar("_N", int, float)


def _or(requested: _N | None, otherwise: _N) -> _N:
    return otherwise if requested is None else requested


def _batch(members: Members, mode: Mode) -> Batching | None:
    if "x-batch" in members and mode != "batched":
        members.report("x-batch", "needs x-mode: batched")
    batch = members.section("x-batch")
    found = Batching(
        events=batch.take("events", integer(1, 10_000), _BATCH.events),
        size=batch.take("bytes", _size, _BATCH.size),
        wait=batch.take("wait", duration(0, 60_000), _BATCH.wait),
    )
    batch.finish()
    if mode != "batched":
        return None
    return _BATCH if found == _BATCH else found


def _rate(value: Json) -> float:
    try:
        found = parse_rate(value)
    except ValueError as error:
        raise InvalidMember(str(error)) from None
    return found.number * 1000 / found.per_ms


def _size(value: Json) -> int:
    try:
        found = integer(1, _MOST_BYTES)(value) if isinstance(value, int) else parse_size(value)
    except InvalidMember:
        raise
    except ValueError as error:
        raise InvalidMember(str(error)) from None
    return integer(1, _MOST_BYTES)(found)
