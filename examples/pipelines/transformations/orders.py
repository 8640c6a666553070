"""A streaming table of what the queue `sales` brings, and totals by customer."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, sum

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """Return the orders, one row for each message of the queue."""
    source = spark.readStream.format("penstock").option("servers", os.environ.get("BROKER", "127.0.0.1:5672"))
    messages = source.option("subscribe", "sales").option("cursor", "pipeline").load()
    order = from_json(col("value").cast("string"), "customer STRING, amount BIGINT").alias("order")
    return messages.select("sequence", order).select("sequence", "order.*")


@dp.materialized_view
def totals() -> DataFrame:
    """Return the sum of all orders by customer."""
    return spark.read.table("orders").groupBy("customer").agg(sum("amount").alias("amount"))
