"""What a bridge stores of a log of another container is bounded, whatever partitions and offsets that names."""

from __future__ import annotations

from gateway.forwarding.checkpoints import MAX_NAME, MAX_OFFSET, MAX_PARTITIONS, WHOLE, Checkpoints


def test_a_log_may_have_many_partitions_and_no_more() -> None:
    checkpoints = Checkpoints({"stored": "1"})
    for number in range(MAX_PARTITIONS - 1):
        name = f"p{number}"
        assert checkpoints.problem(name, "1") is None
        checkpoints.came(number, name, "1")
        if number % 2:
            checkpoints.done(number, name)
    checkpoints.begin()
    found = checkpoints.problem("new", "1")
    assert found is not None
    assert f"at most {MAX_PARTITIONS} partitions" in found
    assert all(checkpoints.problem(known, "2") is None for known in ("stored", "p0", "p1"))


def test_names_and_offsets_have_a_length() -> None:
    checkpoints = Checkpoints({})
    assert checkpoints.problem("p" * MAX_NAME, "o" * MAX_OFFSET) is None
    assert checkpoints.problem("p" * (MAX_NAME + 1), "o") is not None
    assert checkpoints.problem(WHOLE, "o" * (MAX_OFFSET + 1)) is not None
