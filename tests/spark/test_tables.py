"""Sources as tables: options that Spark adds to those of the table are understood.

Spark 4.3 gives the options of a table to its look-up of the schema alone. A stream over it has those of the read.
"""

import uuid

import pytest

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
