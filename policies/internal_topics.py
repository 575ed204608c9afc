"""Internal Kafka topics: captures of a rule never lead to one; the rule's template has to name it literally.

Internal topics are those that start with `__` (Kafka's own), the gateway's journal and the dead-letter topics of
address rules. Otherwise a rule like `events/{topic}` would give access to consumer offsets and to dead letters of other
addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from policies.model.policy import Policy
from policies.model.scopes.addresses import KafkaRule
from policies.values.patterns import Template

_UNFILLED: Final = "\0"  # stands for a capture; no topic name contains it


@dataclass(frozen=True, slots=True)
class Reserved:
    """A kind of internal topics of one cluster: a pattern of their `names`, and `what` they are, for error texts."""

    names: re.Pattern[str]
    what: str

    def hides(self, template: Template, topic: str) -> bool:
        """Whether `topic` is one of them only because of the captures that `template` was filled with."""
        if self.names.fullmatch(topic) is None:
            return False
        return self.names.fullmatch(template.fill(dict.fromkeys(template.names, _UNFILLED))) is None


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
    what = next((each.what for each in reserved if each.hides(template, topic)), None)
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
