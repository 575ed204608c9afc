"""The CloudEvents SQL Expression Language 1.0.0 (CESQL): expressions over the attributes of one event. Pure.

`parse_cesql` reads an expression, `compile_cesql` makes a function of it, `compile_condition` a filter, and `necessary`
the predicate that an index can look up. For a filter, an error during evaluation counts as false.
"""

from gateway.filters.cesql.compile import compile_cesql, compile_condition
from gateway.filters.cesql.grammar import parse_cesql
from gateway.filters.cesql.limit import limited_cesql
from gateway.filters.cesql.necessary import necessary
from gateway.filters.cesql.nodes import Expression, attributes_of, has_mixed_logic

__all__ = [
    "Expression",
    "attributes_of",
    "compile_cesql",
    "compile_condition",
    "has_mixed_logic",
    "limited_cesql",
    "necessary",
    "parse_cesql",
]
