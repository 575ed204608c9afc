"""Sets of keys are sets, in the order of insertion, whatever their form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.filters.index.key_sets import KeySet, with_key, without_key


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=40))
def test_a_set_of_keys_is_as_a_dict_of_them(changes: list[tuple[bool, int]]) -> None:
    keys: KeySet[int] = ()
    model: dict[int, None] = {}
    for added, key in changes:
        if added:
            keys = with_key(keys, key)
            model[key] = None
        elif key in model:
            keys = without_key(keys, key)
            del model[key]
        else:
            with pytest.raises(KeyError):
                without_key(keys, key)
        assert list(keys) == list(model)
        assert bool(keys) is bool(model)
