"""The flow log as Spark reads it, with the schema that it is documented with."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.logs import flowlog
from penstock.server.record_log import RecordLog

pytestmark = pytest.mark.spark

CROSSING = {
    "id": "QUE-1003",
    "kind": "queue",
    "gate": "größe",
    "vhost": "/",
    "queue": "größe",
    "messages": 4,
    "bytes": 1 << 40,
}


def test_flow_log_of_a_broker_is_read_by_spark(spark, tmp_path: Path) -> None:
    log = RecordLog(flowlog.FILES, tmp_path, 3, 4096)
    log.start()
    for number in range(20):
        log.put([{"event": "gate-closed", "wall": 1.5 + number, "mono": 0.5, **CROSSING}])
    log.put([{"event": "depth", "wall": 2.5, "mono": 1.5, "open": False, "blocked": 3}])
    log.stop()
    frame = spark.read.schema(flowlog.SCHEMA).json(str(tmp_path))
    assert frame.columns == list(flowlog.FIELDS)
    rows = [{name: value for name, value in row.asDict().items() if value is not None} for row in frame.collect()]
    assert sorted(rows, key=lambda row: row["mono"]) == sorted(flowlog.read(tmp_path), key=lambda row: row["mono"])
    closed = frame.where("event = 'gate-closed'")
    assert closed.count() == 20
    assert closed.selectExpr("max(bytes)", "max(wall)").first() == (1 << 40, 20.5)
    assert frame.where("event = 'depth' and not open and blocked = 3").count() == 1
