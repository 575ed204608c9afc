"""`scopegate subscriptions try`: which of the newest events a subscription would get, before it is created."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import click

from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.cloudevents.model.values import InvalidSubscription
from bridges.cloudevents.subscription.parse import parse
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.plural import counted
from policies.rules import CompiledPolicy
from policies.subscriptions import ManagerRules, manager_rules

_EPILOG: Final = """
\b
Example:
  scopegate subscriptions try orders.json --policy gateway.yaml --user billing --count 1000

Exit codes: 0 something matches; 1 nothing matches; 2 invalid input, or a topic that cannot be read (reported on
stderr).
"""


class _TryFailed(click.ClickException):
    """A mistake in the input: exit code 2, because 1 says that nothing matches."""

    exit_code = 2

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(self.format_message(), err=True)


@click.command("try", epilog=_EPILOG)
@click.argument("file", type=click.File("rb"))
@click.option("--policy", required=True, type=click.Path(path_type=Path), help="The policy with the manager.")
@click.option("--manager", help="SCOPE/NAME of the manager.  [default: the only one]")
@click.option("--user", default="anonymous", show_default=True, help="The owner.")
@click.option("--count", default=1000, show_default=True, type=click.IntRange(1), help="Newest events of each stream.")
@click.option("--show", default=3, show_default=True, type=click.IntRange(0), help="Matching events to show.")
@click.option("--bootstrap", help="Servers to use instead of the policy's, or those of its embedded Kafka.")
def attempt(
    file: IO[bytes], policy: Path, manager: str | None, user: str, count: int, show: int, bootstrap: str | None
) -> None:
    """Check the subscription in FILE, and show which of the newest events of its streams it would get."""
    import sys
    import time

    compiled = _load(policy)
    rules = _manager(compiled, manager)
    try:
        subscription = parse(file.read(), rules, new_id="try", owner=user, now_ms=time.time_ns() // 1_000_000)
    except InvalidSubscription as error:
        raise _TryFailed("\n".join(f"{each.field or 'object'}: {each.message}" for each in error.mistakes)) from None
    total, addresses = 0, subscription.config.addresses or rules.subscribable(user)
    denied = [address for address in addresses if not rules.may_subscribe(user, address)]
    if denied or not addresses:
        streams = ", ".join(denied) or "any stream of this manager"
        raise _TryFailed(f"{user} may not subscribe to {streams}: an entry of access with may: subscribe allows it")
    for address in addresses:
        total += _try_filter(compiled, rules, subscription, address, (count, show), bootstrap)
    sys.exit(0 if total else 1)


def _try_filter(
    policy: CompiledPolicy,
    rules: ManagerRules,
    subscription: Subscription,
    address: str,
    most: tuple[int, int],
    bootstrap: str | None,
) -> int:
    """Print the matching events of one stream; returns their number."""
    read = events = matching = 0
    for event in _newest(policy, rules, address, most[0], bootstrap):
        read += 1
        events += event is not None
        if event is not None and subscription.filter.matches(event):
            matching += 1
            if matching <= most[1]:
                named = " ".join(f"{name}={event.attributes.get(name)}" for name in ("id", "type", "subject"))
                click.echo(f"{address} {event.partition}/{event.offset}: {named}")
    click.echo(f"{address}: {matching} of {counted(events, 'event')} selected ({counted(read, 'record')})")
    return matching


def _newest(
    policy: CompiledPolicy, rules: ManagerRules, address: str, count: int, bootstrap: str | None
) -> Iterator[CloudEvent | None]:
    from bridges.kafka.admin.sample import newest_records
    from gateway.errors import AmqpError

    route = rules.streams[address]
    model = policy.model.kafka[route.cluster]
    servers = bootstrap or model.bootstrap
    if servers == "embedded":
        raise _TryFailed("the policy's Kafka is embedded in the running gateway: name it with --bootstrap")
    settings = {"bootstrap.servers": servers, **policy.client_settings(model)}
    try:
        for record in newest_records(settings, route.topic, count):
            yield event_of(record, address, wrap=rules.wrap)
    except AmqpError as error:
        raise _TryFailed(f"{address}: {error.description}") from None


def _load(file: Path) -> CompiledPolicy:
    from gateway.config.policy import load
    from policies.text.diagnostics import PolicyErrors

    try:
        return load(file)
    except PolicyErrors as errors:
        raise _TryFailed(str(errors)) from None


def _manager(policy: CompiledPolicy, name: str | None) -> ManagerRules:
    known = {rules.full_name: rules for rules in manager_rules(policy)}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        raise _TryFailed(f"name a manager of the policy with --manager: {', '.join(known) or 'there is none'}")
    return known[name]
