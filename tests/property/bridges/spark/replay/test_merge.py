"""Whatever files an archive has, a replay reads each selected row once, and those of a partition in their order."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from bridges.spark.replay.merge import ArchiveFile, merged
from bridges.spark.replay.plan import OffsetSpan, SourceFile, layers

PARTITIONS = 4


def written(path: Path, keys: list[tuple[int, int]], group: int) -> None:
    """A file with these partitions and offsets, and a text for each that is as large as the offset."""
    table = pa.table({
        "partition": pa.array([partition for partition, _ in keys], pa.int32()),
        "offset": pa.array([offset for _, offset in keys], pa.int64()),
        "body": pa.array([b"x" * offset for _, offset in keys], pa.binary()),
    })  # fmt: skip
    pq.write_table(table, path, row_group_size=group)


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from(["sorted", "ascending", "any"]))
def test_each_row_once_and_in_order(seed: int, count: int, kind: str) -> None:
    chance = random.Random(seed)
    keys = [(partition, offset) for partition in range(PARTITIONS) for offset in range(chance.randrange(60))]
    wanted = {partition for partition in range(PARTITIONS) if chance.random() < 0.7}
    files: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for number, key in enumerate(keys):  # some files overlap, others follow each other
        scattered = chance.random() < 0.2
        files[chance.randrange(count) if scattered else number * count // len(keys)].append(key)
    with tempfile.TemporaryDirectory() as folder:
        opened = []
        for number, own in enumerate(files):
            if kind == "ascending":
                own.sort(key=lambda key: key[1])
            elif kind == "any":
                chance.shuffle(own)
            written(Path(folder) / f"{chance.random()}-{number}", own, chance.randrange(1, 50))
        opened = [ArchiveFile(path, wanted, ("partition", "offset", "body")) for path in Path(folder).iterdir()]
        found = []
        for batch in merged(opened, budget=chance.choice([1, 1000, 1 << 20])):
            found += [(row["partition"], row["offset"]) for row in batch.to_pylist()]
            assert [len(row["body"]) for row in batch.to_pylist()] == batch.column("offset").to_pylist()
    assert sorted(found) == [key for key in keys if key[0] in wanted]
    for partition in wanted:
        own = [key for key in found if key[0] == partition]
        assert own == sorted(own)


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 9)), max_size=4), max_size=8))
def test_layers_follow_each_other_in_each_partition(given: list[list[tuple[int, int, int]]]) -> None:
    files = [
        SourceFile(str(number), tuple(OffsetSpan(partition, start, start + size) for partition, start, size in parts))
        for number, parts in enumerate(given)
    ]
    found = layers(files)
    assert sorted(file.path for layer in found for file in layer) == [file.path for file in files]
    ends: dict[int, int] = {}
    for layer in found:
        parts = [part for file in layer for part in file.parts]
        assert all(part.start >= ends.get(part.partition, 0) for part in parts)
        for part in parts:
            ends[part.partition] = max(part.end, ends.get(part.partition, 0))
