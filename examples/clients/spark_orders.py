"""Read a queue with Spark's Structured Streaming, and write to another one.

    penstock queues declare spark-orders; penstock queues declare bills
    penstock queues publish spark-orders 'order 1' 'order 2'
    python spark_orders.py                             # reads what is there, and ends

The folder `checkpoints` belongs to the query's cursor: a second run reads what has come since, and a new broker needs a
new folder. The cursor holds messages back until they are in the target. So a slow query closes the gate of
`spark-orders`, and a full queue `bills` makes the query wait.
"""

import os

from pyspark.sql import SparkSession

import pyspark_penstock  # noqa: F401  (before the session: it sets the Python that Spark runs)

SERVERS = os.environ.get("PENSTOCK_SERVERS", "127.0.0.1:5672")
CHECKPOINT = os.environ.get("CHECKPOINT", "checkpoints/orders")

spark = SparkSession.builder.appName("orders").getOrCreate()
orders = (
    spark.readStream.format("penstock")
    .option("servers", SERVERS)
    .option("subscribe", "spark-orders")
    .option("cursor", "spark-billing")
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
print(sum(batch.numInputRows for batch in query.recentProgress), "orders billed")
