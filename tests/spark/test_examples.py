"""The example with Spark runs as it stands."""

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "clients" / "spark_orders.py"


def test_sparks_example_reads_a_queue_and_writes_to_another(spark, broker, checkpoint, monkeypatch):
    with broker.connect() as connection:
        for queue in ("orders", "bills"):
            connection.channel().queue_declare(queue)
    broker.publish("orders", [b"order %d" % number for number in range(10)])
    monkeypatch.setenv("PENSTOCK_SERVERS", broker.address)
    monkeypatch.setenv("CHECKPOINT", checkpoint)
    try:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        assert sorted(broker.drain("bills", 10)) == [b"ORDER %d" % number for number in range(10)]
    finally:
        broker.control("cursor.delete", cursor="billing")
        for queue in ("orders", "bills"):
            broker.delete(queue)
