"""Read a queue with Spark's Structured Streaming, and write to another one.

    penstock queues declare orders; penstock queues declare bills
    python spark_orders.py                             # reads what is there, and ends

The query's cursor holds messages back until they are in the target: a slow query closes the gate of `orders`, and
a full queue `bills` makes the query wait.
"""

import os
import tempfile

from pyspark.sql import SparkSession

import pyspark_penstock  # noqa: F401  (before the session: it sets the Python that Spark runs)

SERVERS = os.environ.get("PENSTOCK_SERVERS", "127.0.0.1:5672")
CHECKPOINT = os.environ.get("CHECKPOINT") or tempfile.mkdtemp(prefix="orders-")

spark = SparkSession.builder.appName("orders").getOrCreate()
orders = (
    spark.readStream.format("penstock")
    .option("servers", SERVERS)
    .option("subscribe", "orders")
    .option("cursor", "billing")
    .load()
)
bills = orders.selectExpr("CAST(upper(CAST(value AS STRING)) AS BINARY) AS value", "message_id")
query = (
    bills.writeStream.format("penstock")
    .option("servers", SERVERS)
    .option("queue", "bills")
    .option("checkpointLocation", CHECKPOINT)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
