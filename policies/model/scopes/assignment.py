"""How partitions of an event log are assigned to links, and to links of a consumer group (ES 4)."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic.json_schema import JsonSchemaValue

from policies.values.base import Parser
from policies.values.units import Millis

Binding = Literal["agnostic", "assign", "client"]
Surplus = Literal["reject", "pend"]
GroupMode = Literal["bound", "shared"]
EqualEpoch = Literal["refuse", "displace"]
Ownership = Literal["shared", "sharded"]
Groups = Literal["dynamic", "none"] | tuple[str, ...]
Allowed = Literal["all", "none"] | tuple[int, ...]
MAX_GROUP_NAME: Final = 255
_MOST: Final = 1000
_GROUPS_TEXT: Final = 'must be dynamic, none or a list of names, like [billing, "audit"]'
_PARTITIONS_TEXT: Final = "must be all, none or a list of partition numbers, like [0, 1]"


def legal_group(name: object) -> bool:
    """Whether a consumer group can have this name: a printable text of up to 255 characters."""
    return isinstance(name, str) and 0 < len(name) <= MAX_GROUP_NAME and name.isprintable()


def parse_groups(value: object) -> Groups:
    """`dynamic`, `none` or a list of group names."""
    if isinstance(value, str) and value in ("dynamic", "none"):
        return "dynamic" if value == "dynamic" else "none"
    if isinstance(value, list | tuple) and 0 < len(value) <= _MOST and all(legal_group(name) for name in value):
        return tuple(str(name) for name in value)
    raise ValueError(_GROUPS_TEXT)


def parse_partitions(value: object) -> Allowed:
    """`all`, `none` or a list of partition numbers."""
    if isinstance(value, str) and value in ("all", "none"):
        return "all" if value == "all" else "none"
    if isinstance(value, list | tuple) and 0 < len(value) <= _MOST and all(_number(each) for each in value):
        return tuple(sorted(set(value)))
    raise ValueError(_PARTITIONS_TEXT)


def _number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _either(*words: str, items: JsonSchemaValue) -> JsonSchemaValue:
    return {"anyOf": [{"enum": list(words)}, {"type": "array", "items": items, "minItems": 1, "maxItems": _MOST}]}


_NAME: Final = {"type": "string", "minLength": 1, "maxLength": MAX_GROUP_NAME}
GroupNames = Annotated[
    Groups, Parser(parse_groups, _either("dynamic", "none", items=_NAME))
]
PartitionNumbers = Annotated[
    Allowed,
    Parser(parse_partitions, _either("all", "none", items={"type": "integer", "minimum": 0})),
]


@dataclass(frozen=True, slots=True)
class Assignment:
    """How a node assigns partitions to links; times in milliseconds."""

    binding: Binding = "agnostic"
    partitions: Allowed = "all"
    groups: Groups = "dynamic"
    surplus: Surplus = "reject"
    pending_timeout: Millis = Millis(30_000)  # noqa: RUF009 (an int)
    pending_limit: int = 100
    epoch_retention: Millis = Millis(300_000)  # noqa: RUF009 (an int)
    ownership: Ownership = "shared"
    group_mode: GroupMode = "bound"
    equal_epoch: EqualEpoch = "refuse"

    def among(self, partitions: int) -> tuple[int, ...]:
        """The partitions that links may be bound to, in a log of `partitions` partitions."""
        if self.partitions == "none":
            return ()
        allowed = range(partitions) if self.partitions == "all" else self.partitions
        return tuple(number for number in allowed if number < partitions)

    def grants(self, partition: int) -> bool:
        """Whether links may be bound to this one."""
        return self.partitions == "all" or (self.partitions != "none" and partition in self.partitions)
