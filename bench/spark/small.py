"""Batches of 1,000 rows: what a batch costs, from Penstock and from a source of Python that does nothing.

Seconds for a million rows are milliseconds for a batch here.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from bench.spark.reading import Case, Reading
from bench.spark.session import drain

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1_000
SHORT, LONG = 10 * BATCH, 70 * BATCH


class ConstantSource(DataSource):
    """Source of the same rows again and again, up to the number that the option `rows` names."""

    @classmethod
    def name(cls) -> str:
        return "constant"

    def schema(self) -> str:
        from pyspark_penstock.schema import DEFAULT_COLUMNS, source_ddl

        return source_ddl(DEFAULT_COLUMNS)

    def streamReader(self, schema: Any) -> "ConstantReader":
        return ConstantReader(int(self.options["rows"]), int(self.options["octets"]))


class ConstantReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader that asks nobody: a batch is made once in a worker."""

    def __init__(self, rows: int, octets: int) -> None:
        self._rows, self._octets = rows, octets

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do: the number of rows is known."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(BATCH)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"n": min(start["n"] + BATCH, self._rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["n"], end["n"]))]

    def commit(self, end: dict[str, int]) -> None:
        pass

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        yield _rows(self._octets)


@cache
def _rows(octets: int) -> "pa.RecordBatch":
    return Reading.table("constant", octets, BATCH).combine_chunks().to_batches()[0]


def cases(reading: Reading, most: int | None) -> list[Case]:
    """Return the two ways, with so many rows in a long run."""
    rows_max = most or LONG
    return [
        Case(
            "Penstock",
            SHORT,
            rows_max,
            lambda rows: reading.read({"maxOffsetsPerTrigger": str(BATCH)}, rows),
            reading.fill,
        ),
        Case("a source that does nothing", SHORT, rows_max, lambda rows: _nothing(reading, rows)),
    ]


def _nothing(reading: Reading, rows: int) -> None:
    reading.spark.dataSource.register(ConstantSource)
    stream = reading.spark.readStream.format("constant").option("rows", rows).option("octets", reading.octets)
    found = drain(stream.load(), reading.scratch)
    assert found == rows, f"a query read {found} of {rows} rows"
