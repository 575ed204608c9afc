"""Internal Kafka topics: captures and wildcards never lead to one; the policy has to name it literally.

Internal topics are those that start with `__` (Kafka's own), the gateway's journal and the dead-letter topics of
address rules. Otherwise a rule like `events/{topic}` would give access to consumer offsets and to dead letters of other
addresses, and a sink entry for any topic would let subscriptions forge rows of the journal and offsets of groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from policies.model.policy import Policy
from policies.model.scopes.addresses import KafkaRule
from policies.values.patterns import Template

_UNFILLED: Final = "\0"  # stands for a capture or a wildcard; no topic name contains it


@dataclass(frozen=True, slots=True)
class Reserved:
    """A kind of internal topics of one cluster: a pattern of their `names`, and `what` they are, for error texts."""

    names: re.Pattern[str]
    what: str

    def hides(self, unfilled: str, topic: str) -> bool:
        """Whether `topic` is one of them only because of what stands for the captures or wildcards of `unfilled`."""
        return self.names.fullmatch(topic) is not None and self.names.fullmatch(unfilled) is None


_KAFKAS: Final = Reserved(re.compile(r"__.*", re.DOTALL), "is internal to Kafka")


@dataclass(frozen=True, slots=True)
class ReservedTopics:
    """The internal topics of one cluster."""

    own: tuple[Reserved, ...] = (_KAFKAS,)
    dead_letters: tuple[Reserved, ...] = ()

    def refusal(self, rule: KafkaRule, captures: dict[str, str]) -> str | None:
        """The reason why these captures of `rule` must not be used; None if they may be."""
        return _hidden((*self.own, *self.dead_letters), "topic", rule.topic, captures) or _hidden(
            self.own, "dead_letter", rule.dead_letter, captures
        )


@dataclass(frozen=True, slots=True)
class TopicPatterns:
    """Patterns of topics, in which * is any text, except that it reaches no internal topic."""

    patterns: tuple[str, ...]
    reserved: tuple[Reserved, ...] = (_KAFKAS,)

    def matches(self, topic: str) -> bool:
        """Whether one of them reaches this topic."""
        return any(self._reaches(pattern, topic) for pattern in self.patterns)

    def _reaches(self, pattern: str, topic: str) -> bool:
        text = ".*".join(map(re.escape, pattern.split("*")))
        unfilled = pattern.replace("*", _UNFILLED)
        return re.fullmatch(text, topic) is not None and not any(each.hides(unfilled, topic) for each in self.reserved)


def sink_topics(policy: Policy, patterns: tuple[str, ...], cluster: str | None) -> TopicPatterns:
    """The topics of an entry of `sinks`, at a cluster of the policy; None: at servers that may be any of them."""
    known = reserved_topics(policy)
    clusters = known.values() if cluster is None else [known[cluster]]
    reserved = [_KAFKAS, *(kind for each in clusters for kind in (*each.own, *each.dead_letters))]
    return TopicPatterns(patterns, tuple(dict.fromkeys(reserved)))


def reserved_topics(policy: Policy) -> dict[str, ReservedTopics]:
    """The internal topics of every cluster, by its name."""
    return {
        name: ReservedTopics((_KAFKAS, *_journal(policy, name)), tuple(_dead_letters(policy, name)))
        for name in policy.kafka
    }


def _hidden(
    reserved: tuple[Reserved, ...], key: str, template: Template | None, captures: dict[str, str]
) -> str | None:
    if template is None or not template.names:
        return None
    topic = template.fill(captures)
    unfilled = template.fill(dict.fromkeys(template.names, _UNFILLED))
    what = next((each.what for each in reserved if each.hides(unfilled, topic)), None)
    return None if what is None else f"its {key} {what}, which a rule has to name literally"


def _journal(policy: Policy, cluster: str) -> Iterable[Reserved]:
    journal = policy.gateway.journal
    if journal is not None and journal.kafka == cluster:
        yield Reserved(re.compile(re.escape(journal.topic)), "is the gateway's journal")


def _dead_letters(policy: Policy, cluster: str) -> Iterable[Reserved]:
    rules = (rule for scope in policy.scopes.values() for rule in scope.addresses)
    on = (rule.dead_letter for rule in rules if isinstance(rule, KafkaRule) and rule.kafka == cluster)
    for template in dict.fromkeys(template for template in on if template is not None):
        yield Reserved(_filled(template), "is a dead-letter topic")


def _filled(template: Template) -> re.Pattern[str]:
    """A pattern of the topics that a template can name."""
    literals = (re.escape(part) for part in template.parts[::2])
    return re.compile(".+".join(literals), re.DOTALL)
