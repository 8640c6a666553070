"""Sources as tables: options that Spark adds to those of the table are understood, and those of the table are used.

Spark 4.3 gives the options of a table to its look-up of the schema alone.
"""

import uuid

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_penstock.source import TABLE_OPTIONS, table_comment, with_table_options

pytestmark = pytest.mark.spark


@pytest.fixture
def options(broker):
    queue = broker.declare()
    broker.publish(queue, [b"%d" % number for number in range(5)])
    return {"servers": broker.address, "subscribe": queue, "cursor": f"tables-{queue}"}


@pytest.fixture
def table(spark, options):
    name = f"orders_{uuid.uuid4().hex[:8]}"
    listed = ", ".join(f"{key} '{value}'" for key, value in options.items())
    spark.sql(f"CREATE TABLE {name} USING penstock OPTIONS ({listed})")
    yield name
    spark.sql(f"DROP TABLE {name}")


def test_table_over_a_queue_is_read_as_a_stream(spark, table, options, checkpoint):
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    by_name = spark.readStream.options(**options).table(table)
    in_sql = spark.sql(f"SELECT * FROM STREAM {table} WITH ({listed})")
    runs = []
    for frame in (by_name, in_sql):
        found = []
        query = frame.writeStream.foreachBatch(lambda rows, _, found=found: found.extend(rows.collect()))
        query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        runs.append([bytes(row.value) for row in found])
    assert runs == [[b"0", b"1", b"2", b"3", b"4"], []], "the second run goes on where the first one ended"


def test_table_is_queried_with_its_own_options(spark, table, options, checkpoint):
    values = [b"0", b"1", b"2", b"3", b"4"]
    assert [bytes(row.value) for row in spark.sql(f"SELECT value FROM {table}").collect()] == values
    assert [row.sequence for row in spark.sql(f"SELECT sequence FROM {table} WHERE sequence > 3").collect()] == [4, 5]
    later = f"SELECT value FROM {table} WITH ('startingOffsets' = 'latest')"
    assert spark.sql(later).collect() == []
    found = []
    query = spark.readStream.table(table).writeStream.foreachBatch(lambda rows, _: found.extend(rows.collect()))
    query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert [bytes(row.value) for row in found] == values


def test_comment_of_a_table_has_no_secret():
    given = {"provider": "penstock", "subscribe": r"it's \d", "option.subscribe": r"it's \d", "password": "hunter2"}
    comment = table_comment(given, TABLE_OPTIONS)
    assert comment == r"""penstock options {"subscribe": "it's \\d"}"""
    assert table_comment({"subscribe": "orders"}, TABLE_OPTIONS) == ""
    field = StructField("queue", StringType(), True, {"comment": comment})
    read = with_table_options({"Subscribe": "other"}, StructType([field]), TABLE_OPTIONS)
    assert read == {"Subscribe": "other"}
    assert with_table_options({}, StructType([field]), TABLE_OPTIONS) == {"subscribe": r"it's \d"}
