"""Data source that Spark finds under the format ``amqp``."""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_amqp.options import amqp_options
from pyspark_penstock.errors import SparkSourceError
from pyspark_penstock.schema import check_source_schema, source_ddl
from pyspark_penstock.sentences import sentence_first
from pyspark_penstock.versions import check_source

if TYPE_CHECKING:  # An older PySpark lacks these, and fails when it requests them.
    from pyspark_amqp.reader import AmqpStreamReader


@sentence_first
class AmqpDataSource(DataSource):
    """Data source of ``readStream``; it has no sink."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Store the options; Spark has not chosen the side yet."""
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "amqp"

    def schema(self) -> str:
        """Return the columns in the options."""
        return source_ddl(amqp_options(self.options).columns)

    def reader(self, schema: StructType) -> NoReturn:
        """Refuse a batch read: without a checkpoint the messages to acknowledge are unknown."""
        raise SparkSourceError("a queue is drained by readStream with trigger(availableNow=True), not by read")

    def streamReader(self, schema: StructType) -> "AmqpStreamReader":
        """Return the reader of a streaming query."""
        check_source(self.name())
        from pyspark_amqp.reader import AmqpStreamReader

        options = amqp_options(self.options)
        check_source_schema(schema, options.columns)
        return AmqpStreamReader(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse to write a stream."""
        raise SparkSourceError("the format amqp only reads; write to Penstock by the format penstock")

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse to write a batch."""
        raise SparkSourceError("the format amqp only reads; write to Penstock by the format penstock")
