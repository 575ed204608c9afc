"""Metrics of Spark's SQL executions, as its own history has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SqlMetrics:
    """The metrics of the executions since this object was made."""

    def __init__(self, spark: SparkSession) -> None:
        session: Any = spark._jsparkSession
        self._bus: Any = session.sparkContext().listenerBus()
        self._store: Any = session.sharedState().statusStore()
        self._before = {each.executionId() for each in self._executions()}

    def total(self, metric: str, node: str = "") -> int:
        """The sum of a metric over all nodes of the plans whose names contain `node`."""
        found = 0
        for execution in self._executions():
            if execution.executionId() not in self._before:
                found += self._of_execution(execution.executionId(), metric, node)
        return found

    def _of_execution(self, number: int, metric: str, node: str) -> int:
        values, found = self._store.executionMetrics(number), 0
        for each in _items(self._store.planGraph(number).allNodes()):
            for one in _items(each.metrics()) if node in each.name() else ():
                value = values.get(one.accumulatorId())
                if one.name() == metric and value.isDefined():
                    found += int(value.get().replace(",", ""))
        return found

    def _executions(self) -> list[Any]:
        self._bus.waitUntilEmpty()
        return _items(self._store.executionsList())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
