"""`scopegate filter`: test which messages a filter matches, why, and how fast."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from gateway.plural import plural

if TYPE_CHECKING:
    from gateway.filters.evaluate.access import Encoded
    from gateway.filters.evaluate.explain import Explainer
    from gateway.filters.predicate import Predicate
    from policies.rules import CompiledPolicy, KafkaRoute

_WORDS: Final = {True: "true", False: "false", None: "unknown"}
_TYPES: Final = {
    "sql": "amqp:sql-filter",
    "selector": "apache.org:selector-filter:string",
    "event-sql": "amqp:event-streams-sql-filter",
}
_ENCODED: Final = b"\x00"
"""The first byte of every encoded section, which no text begins with."""
_FILTER: Final = "--as filter"
_MEASURED: Final = 0.1
_EPILOG: Final = """
\b
Examples:
  scopegate filter "a.color = 'red' AND h.priority > 4" --message order.yaml
  scopegate filter "color = 'red'" --as selector --message one.amqp --message two.amqp
  scopegate filter "application-properties-filter: {color: '&P:re'}" --as filter --message order.yaml
  scopegate filter "a.color = 'red'" --policy gateway.yaml --topic events/orders --count 50000

\b
A message in YAML (or any number of them, each under its own name):
  header: {priority: 9}
  properties: {subject: order, message-id: id-1}
  application-properties: {color: red, n: !int 7}
  data: hello

Exit codes: 0 something matches; 1 nothing matches; 2 invalid input, or a file or topic that cannot be read
(reported on stderr).
"""


class _Mistake(click.ClickException):
    """Invalid input, or nothing to read: exit code 2, because 1 means that nothing matches."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.format_message(), err=True)


@click.command("filter", epilog=_EPILOG)
@click.argument("expression")
@click.option(
    "--as",
    "language",
    type=click.Choice([*_TYPES, "filter"]),
    default="sql",
    show_default=True,
    help="The language of EXPRESSION: an SQL filter, a JMS selector, the small SQL of event streams, or any filter "
    "as YAML (its name without amqp:, and its value).",
)
@click.option(
    "--message",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="A message: YAML, or the bytes of an encoded one; -: from stdin. May be repeated.",
)
@click.option("--topic", "address", help="The address of an event log of the policy, as used by a client.")
@click.option(
    "--policy", type=click.Path(path_type=Path), help="The policy that has --topic; its limits on filters apply."
)
@click.option("--scope", help="With --topic: the client's scope.  [default: the first that has the address]")
@click.option("--bootstrap", help="With --topic: servers to use instead of the policy's, or those of its embedded "
    "Kafka.")
@click.option("--count", default=10_000, show_default=True, type=click.IntRange(1), help="Newest events to read.")
@click.option("--show", default=3, show_default=True, type=click.IntRange(0), help="Matching events to explain.")
def filter_command(
    expression: str,
    language: str,
    files: tuple[Path, ...],
    address: str | None,
    policy: Path | None,
    scope: str | None,
    bootstrap: str | None,
    count: int,
    show: int,
) -> None:
    """Test a filter on messages or on the newest events of a topic: what matches, why, and how fast.

    Each term is shown with its value (true, false or unknown) and the values of its fields. Only messages for which
    the whole filter is true are delivered.
    """
    if bool(files) == bool(address):
        raise click.UsageError("name the messages to test: --message FILE, or --topic ADDRESS with --policy FILE")
    if address and not policy:
        raise click.UsageError("--topic needs the --policy that has this address")
    loaded = _policy(policy) if policy else None
    predicate = _predicate(expression, language, loaded)
    if address and loaded:
        matched = _try_on_topic(predicate, _events(loaded, scope, address, bootstrap, count), show)
    else:
        matched = _try_on_messages(predicate, dict(_messages(files)))
    sys.exit(0 if matched else 1)


# -- input


def _predicate(expression: str, language: str, policy: CompiledPolicy | None) -> Predicate:
    """The predicate as at an attach; the end of the log is after every event."""
    from gateway.amqp.codec.codec import Described, Symbol
    from gateway.cli.notation import MessageFileError, load_filter
    from gateway.config.policy import make_filter_rules
    from gateway.errors import AmqpError
    from gateway.filters.parse.filter_set import RULES, read
    from gateway.filters.predicate import bind

    rules = RULES if policy is None else make_filter_rules(policy.model.filters)
    try:
        known = language != "filter"
        content = Described(Symbol(_TYPES[language]), expression) if known else load_filter(expression)
        found = read({Symbol("EXPRESSION"): content}, rules)
    except AmqpError as error:
        raise _Mistake(error.description) from None
    except MessageFileError as error:
        raise _Mistake(f"{_FILTER}: {error}") from None
    if found.left_out:
        raise _Mistake(f"{_FILTER}: there is no filter of this type; a gateway would leave it out of what is in force")
    return bind(found.predicate, "9" * 20)


def _policy(file: Path) -> CompiledPolicy:
    from gateway.config.policy import load
    from policies.text.diagnostics import PolicyErrors

    try:
        return load(file)
    except PolicyErrors as errors:
        raise _Mistake(str(errors)) from None


def _messages(files: tuple[Path, ...]) -> Iterator[tuple[str, Encoded]]:
    from gateway.amqp.message.sections import walk
    from gateway.cli.notation import MessageFileError, load_messages
    from gateway.errors import AmqpError

    for file in files:
        try:
            data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
            found = {"": data} if data.startswith(_ENCODED) else load_messages(data.decode())
            for name, message in found.items():
                yield f"{file}:{name}" if len(found) > 1 else str(file), (message, walk(message))
        except OSError as error:
            raise _Mistake(f"{file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise _Mistake(f"{file}: neither an encoded message nor YAML in UTF-8") from None
        except MessageFileError as error:
            placed = str(error)[0].isdigit()  # line:column
            raise _Mistake(f"{file}:{'' if placed else ' '}{error}") from None
        except AmqpError as error:
            raise _Mistake(f"{file}: no AMQP message: {error.description}") from None


def _events(
    policy: CompiledPolicy, scope: str | None, address: str, bootstrap: str | None, count: int
) -> Iterator[Encoded]:
    from gateway.amqp.message.sections import walk
    from gateway.errors import AmqpError
    from gateway.server.composition import newest_events

    route = _route(policy, scope, address)
    model = policy.model.kafka[route.cluster]
    settings = policy.client_settings(model)
    if bootstrap:
        settings["bootstrap.servers"] = bootstrap
    elif model.bootstrap == "embedded":
        raise _Mistake(
            f"the Kafka cluster {route.cluster} is embedded in the running gateway: say --bootstrap with the place "
            f"that its /readyz names"
        )
    try:
        for message in newest_events(model, settings, route.cluster, route.topic, count):
            yield message, walk(message)
    except AmqpError as error:
        raise _Mistake(error.description) from None


def _route(policy: CompiledPolicy, scope: str | None, address: str) -> KafkaRoute:
    from policies.rules import KafkaRoute

    if scope is not None and scope not in policy.scopes:
        raise click.UsageError(f"there is no scope {scope} (there is: {', '.join(policy.scopes)})")
    for name in [scope] if scope else policy.scopes:
        route = policy.scopes[name].route(address)
        if isinstance(route, KafkaRoute):
            return route
    raise _Mistake(f"{address} is no event log in {scope or 'any scope of the policy'}; see: scopegate explain")


# -- output


def _try_on_messages(predicate: Predicate, messages: dict[str, Encoded]) -> int:
    """Explain every message; returns how many match."""
    from gateway.filters.evaluate.access import MessageAccess
    from gateway.filters.evaluate.compile import compile_filter
    from gateway.filters.evaluate.explain import Explainer

    matches, explainer = compile_filter(predicate, MessageAccess()), Explainer(predicate)
    matched = 0
    for name, source in messages.items():
        matched += matches(source)
        _explain(name, matches(source), explainer, source)
    sources = list(messages.values())
    done, spent = _timed(lambda: [matches(source) for source in sources], len(sources))
    click.echo(f"{_count(len(sources), 'message')}, {matched} matching; {_speed(done, spent)}")
    return matched


def _try_on_topic(predicate: Predicate, events: Iterator[Encoded], show: int) -> int:
    """Explain some events that match, and summarize the terms; returns how many match."""
    from gateway.filters.evaluate.access import MessageAccess
    from gateway.filters.evaluate.compile import compile_filter
    from gateway.filters.evaluate.explain import Explainer

    matches, explainer = compile_filter(predicate, MessageAccess()), Explainer(predicate)
    sources = list(events)
    matching = [source for source in sources if matches(source)]
    for source in matching[:show]:
        _explain(_place(source), True, explainer, source)
    for line in _totals(explainer, sources):
        click.echo(line)
    done, spent = _timed(lambda: [matches(source) for source in sources], len(sources))
    share = f" ({len(matching) / len(sources):.2%})" if sources else ""
    click.echo(f"{_count(len(sources), 'event')}, {len(matching):,} matching{share}; {_speed(done, spent)}")
    return len(matching)


def _totals(explainer: Explainer, sources: list[Encoded]) -> Iterator[str]:
    """A line for each term: of how many events it is true, false and unknown."""
    from gateway.filters.evaluate.access import MALFORMED

    totals: dict[tuple[int, str], Counter[bool | None]] = {}
    for source in sources:
        try:
            terms = explainer.terms(source)
        except MALFORMED:  # matches nothing
            continue
        for number, term in enumerate(terms):
            totals.setdefault((number, "  " * term.depth + term.text), Counter())[term.verdict] += 1
    if totals:
        yield "".join(f"{word:>10}" for word in _WORDS.values())
    for (_, text), counts in totals.items():
        yield "".join(f"{counts[verdict]:10,}" for verdict in _WORDS) + f"  {text}"


def _explain(name: str, matched: bool, explainer: Explainer, source: Encoded) -> None:
    from gateway.filters.evaluate.access import MALFORMED

    click.echo(f"{name}: {'matches' if matched else 'does not match'}")
    try:
        terms = explainer.terms(source)
    except MALFORMED as error:
        click.echo(f"  a field that the filter names cannot be decoded: {error}")
        return
    for term in terms:
        why = f"   {', '.join(term.fields)}" if term.fields else ""
        click.echo(f"  {_WORDS[term.verdict]:8} {'  ' * term.depth}{term.text}{why}")


def _place(source: Encoded) -> str:
    from gateway.amqp.message.sections import delivery_annotations

    found = delivery_annotations(*source)
    partition, offset = found.get("event-streams-source-partition"), found.get("event-streams-offset")
    return f"partition {partition}, offset {int(offset or 0)}"


def _timed(run: Callable[[], object], size: int) -> tuple[int, float]:
    """The number of evaluations, and their processor time in seconds."""
    done, start = 0, time.process_time()
    while size and (spent := time.process_time() - start) < _MEASURED:
        run()
        done += size
    return done, spent if size else 0.0


def _speed(done: int, spent: float) -> str:
    if not done:
        return "nothing to measure"
    return f"{spent / done * 1e6:.2f} µs a message, {done / spent:,.0f} a second on one core of this machine"


def _count(number: int, what: str) -> str:
    return f"{number:,} {plural(number, what)}"
