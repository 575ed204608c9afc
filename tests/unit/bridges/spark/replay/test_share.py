"""How the tasks of a replay share its files: each partition is one task's, and what was written is left out."""

from __future__ import annotations

from bridges.kafka.produce.replayer import ReplayTarget
from bridges.spark.replay.plan import Layer, OffsetSpan, SourceFile, share


def target(partitions: int) -> ReplayTarget:
    return ReplayTarget({}, "topic", partitions, 1000, "name")


def files(partitions: int, commits: int) -> list[Layer]:
    """Commits of ten offsets of each partition, in a file each."""
    return [
        (SourceFile(f"{number}", tuple(OffsetSpan(each, 10 * number, 10 * number + 10) for each in range(partitions))),)
        for number in range(commits)
    ]


def test_each_partition_is_one_tasks_whatever_the_count_of_tasks() -> None:
    where = target(40)
    for tasks in (1, 3, 100):
        shares = share(files(40, 2), where.writer_of, {}, tasks)
        assert len(shares) == min(tasks, where.writers)
        assert abs(sum(each.weight for each in shares) - 1) < 1e-9
        owned = [sorted({part.partition for layer in each.layers for file in layer for part in file.parts})
                 for each in shares]  # fmt: skip
        assert sorted(partition for own in owned for partition in own) == list(range(40))
        for each, own in zip(shares, owned, strict=True):
            assert {where.writer_of(partition) for partition in own} == set(each.writers)


def test_files_that_were_written_are_not_opened_again() -> None:
    shares = share(files(2, 3), target(2).writer_of, {0: 30, 1: 15}, 2)
    assert [each.writers for each in shares] == [(1,)]
    assert shares[0].layers == tuple((SourceFile(str(number), (OffsetSpan(1, 10 * number, 10 * number + 10),)),) for number in (1, 2))  # noqa: E501
    assert share(files(2, 3), target(2).writer_of, {0: 30, 1: 30}, 2) == []


def test_partitions_of_the_source_that_go_to_one_partition_have_one_writer() -> None:
    where = target(3)
    assert {where.writer_of(source) for source in (1, 4, 7)} == {1}
    assert target(100).writers == 16
    assert {target(100).writer_of(source) for source in (5, 21, 105)} == {5}
