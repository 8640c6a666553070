"""Write the messages of a queue of RabbitMQ, or of any broker of AMQP 0-9-1, to Parquet."""

import argparse
import os
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

import pyspark_amqp  # noqa: F401  # Before the session is made: its workers must find this Python.


def main() -> None:
    """Run the query."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:5672")
    parser.add_argument("--user", default="guest", help="the password is in the variable AMQP_PASSWORD")
    parser.add_argument("--queue", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--once", action="store_true", help="read what is there, and end")
    given = parser.parse_args()
    folder = given.folder.absolute()

    spark = SparkSession.builder.appName(f"{given.queue} to Parquet").getOrCreate()
    messages = (
        spark.readStream.format("amqp")
        .option("servers", given.servers)
        .option("user", given.user)
        .option("password", os.environ.get("AMQP_PASSWORD", "guest"))
        .option("subscribe", given.queue)
        .option("spool", str(folder / "spool"))
        .option("columns", "sequence,timestamp,message_id,headers_json,value")
        .load()
    )
    rows = messages.withColumn("value", col("value").cast("string"))
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    if given.once:
        writer = writer.trigger(availableNow=True)
    writer.start(str(folder / "parquet")).awaitTermination()
    if given.once:
        spark.read.parquet(str(folder / "parquet")).orderBy("sequence").show(truncate=60)


if __name__ == "__main__":
    main()
