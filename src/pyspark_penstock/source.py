"""Data source that Spark finds under the format ``penstock``.

Options of tables: Spark passes them only to the look-up of the schema, and neither to a query nor to a stream.

So the schema of a table has its options, as the comment of its first column. Secrets are left out: Spark shows
comments.
"""

import json
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_penstock.batch_options import BATCH, BATCH_ONLY, batch_options
from pyspark_penstock.errors import OptionError
from pyspark_penstock.option_table import Option, is_of_table, without_spark_options
from pyspark_penstock.options import SOURCE, check_names, sink_options, source_options
from pyspark_penstock.schema import check_sink_schema, check_source_schema, source_ddl
from pyspark_penstock.sentences import sentence_first
from pyspark_penstock.versions import check_source, check_stream_sink

if TYPE_CHECKING:  # An older PySpark lacks some of these, and fails when it requests one.
    from pyspark_penstock.batch import PenstockBatchReader
    from pyspark_penstock.reader import PenstockStreamReader
    from pyspark_penstock.writer import PenstockBatchWriter, PenstockStreamWriter

TABLE_OPTIONS = (*SOURCE, *BATCH_ONLY)


@sentence_first
class PenstockDataSource(DataSource):
    """Data source of streams and batches, as source and sink; options are checked first."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Refuse options unknown to both sides; Spark has not chosen the side yet."""
        super().__init__(options)
        check_names(options, BATCH_ONLY)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock"

    def schema(self) -> str:
        """Return the requested columns; Spark calls this only for readers, so it checks their options.

        Spark has not said yet whether a stream or a batch is read. A table's options go into the schema; see `tables`.
        """
        comment = table_comment(self.options, TABLE_OPTIONS)
        try:
            return source_ddl(source_options(self.options).columns, comment)
        except OptionError as refusal:
            try:
                return source_ddl(batch_options(self.options).columns, comment)
            except OptionError as other:
                batch = {option.name.lower() for option in BATCH_ONLY}
                raise (other if any(key.lower() in batch for key in self.options) else refusal) from None

    def reader(self, schema: StructType) -> "PenstockBatchReader":
        """Return the reader of a batch."""
        from pyspark_penstock.batch import PenstockBatchReader

        options = batch_options(with_table_options(self.options, schema, BATCH))
        check_source_schema(schema, options.columns)
        return PenstockBatchReader(options)

    def streamReader(self, schema: StructType) -> "PenstockStreamReader":
        """Return the reader of a streaming query."""
        check_source(self.name())
        from pyspark_penstock.reader import PenstockStreamReader

        options = source_options(with_table_options(self.options, schema, SOURCE))
        check_source_schema(schema, options.columns)
        return PenstockStreamReader(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "PenstockStreamWriter":
        """Return the writer of one batch of a streaming query.

        Spark itself refuses the output mode update for every Python sink. Raises `OptionError` for the mode complete.
        """
        from pyspark_penstock.writer import PenstockStreamWriter

        check_stream_sink()
        if overwrite:
            raise OptionError("a queue cannot be overwritten: use outputMode append")
        check_sink_schema(schema)
        options = sink_options(self.options)
        if options.txn_app is not None:
            raise OptionError("options txnAppId and txnVersion are for jobs; a stream has ids of its own")
        return PenstockStreamWriter(options)

    def writer(self, schema: StructType, overwrite: bool) -> "PenstockBatchWriter":
        """Return the writer of a batch job.

        Raises `OptionError` for the mode overwrite.
        """
        from pyspark_penstock.writer import PenstockBatchWriter

        if overwrite:
            raise OptionError("a queue cannot be overwritten: use mode append")
        check_sink_schema(schema)
        return PenstockBatchWriter(sink_options(self.options))


_BEGINS = "penstock options "


def table_comment(given: Mapping[str, object], known: tuple[Option, ...]) -> str:
    """Return the comment with the options of a table; empty if they do not belong to a table."""
    if not is_of_table(given):
        return ""
    open_ = {option.name.lower() for option in known if not option.kind.secret}
    options = {key: text for key, text in without_spark_options(given, frozenset()).items() if key.lower() in open_}
    return _BEGINS + json.dumps(options, sort_keys=True)


def with_table_options(
    given: Mapping[str, object], schema: StructType, known: tuple[Option, ...]
) -> Mapping[str, object]:
    """Return the options of a read, and the known options of its table that are not given again.

    A batch read of a table with queues reads all present messages: the cursor's unread messages are for streams.
    """
    comment = schema.fields[0].metadata.get("comment", "") if schema.fields else ""
    if not comment.startswith(_BEGINS):
        return given
    table = json.loads(comment.removeprefix(_BEGINS))
    keys = {key.lower() for key in table}
    names = {option.name.lower(): option for option in known}
    leaves = {key.lower() for key in given}
    if "cursor" in names and names["cursor"].default is None and keys & {"subscribe", "subscribepattern", "assign"}:
        leaves.add("cursor")
    return {**{key: text for key, text in table.items() if key.lower() in names.keys() - leaves}, **given}
