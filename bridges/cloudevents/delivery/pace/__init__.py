"""Pace: when the next attempt at a sink may be made: circuit breakers of a sink and of its origin, and its rate.

Pure: time is an argument. `delivery.gate` combines them; breakers are shared by all subscriptions of a sink.
"""

from __future__ import annotations

from bridges.cloudevents.delivery.pace import circuit_breaker, rate_limiter

__all__ = ["circuit_breaker", "rate_limiter"]
