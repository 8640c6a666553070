"""The demo's picture and `penstock flow analyze` divide by the same time, so that their shares are equal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from demo.picture import Scene, share_of
from demo.report import Run
from demo.run import FLIGHTS, analysis_of
from demo.watch import story
from penstock.logs import flowlog
from penstock.server.record_log import RecordLog
from pyspark_penstock.analysis.job import analyze, summary
from pyspark_penstock.analysis.logs import Window
from pyspark_penstock.analysis.page import page

WALL, MONO = 1_700_000_000.0, 50.0
"""Begin of the log in both clocks."""
BEGUN, ENDED = WALL + 20.0, WALL + 60.0
"""Begin and end of the run."""
PIKA, AIORMQ = "con:2(pika@127.0.0.1:40312/)/ch:1", "con:3(aiormq@127.0.0.1:40313/)/ch:1"


def record(event: str, at: float, **fields: object) -> dict[str, object]:
    """Return a record of the gate of the queue, so many seconds after the begin of the log."""
    common = {"kind": "queue", "gate": FLIGHTS, "vhost": "/", "queue": FLIGHTS}
    return {"event": event, "wall": WALL + at, "mono": MONO + at, **common, **fields}


RECORDS = [
    {"event": "start", "wall": WALL, "mono": MONO},
    record("gate-closed", 25.0, messages=9, bytes=900),
    record("blocked", 25.0, producer=PIKA),
    record("blocked", 25.5, producer=AIORMQ),
    record("gate-opened", 35.0, messages=4, bytes=400),
    record("unblocked", 35.0, producer=PIKA),
    record("unblocked", 37.5, producer=AIORMQ),
    record("brief-closings", 50.0, messages=9, bytes=900, count=3, brief_s=0.5),
    record("brief-blocks", 50.0, producer=PIKA, count=3, brief_s=1.0),
    {"event": "stop", "wall": WALL + 100.0, "mono": MONO + 100.0},
]


def test_shares_of_picture_and_analysis_are_of_the_same_time(tmp_path: Path) -> None:
    log = RecordLog(flowlog.FILES, tmp_path / "log", 3, 1 << 20)
    log.start()
    log.put(RECORDS)
    log.stop()
    told = story(flowlog.read(tmp_path / "log"), FLIGHTS, ENDED)
    scene = Scene("Flights", [], told, BEGUN, BEGUN, ENDED, 2000, 800, 400)
    command = analysis_of(tmp_path / "log", Run([], {}, BEGUN, ENDED, {}, 0, {}, {}))
    begin, end = (flowlog.seconds_of(re.search(f"--{word} (\\S+)", command)[1]) for word in ("from", "to"))
    assert (begin, end) == (BEGUN, ENDED)
    found = analyze(None, [tmp_path / "log"], tmp_path / "out", Window(begin, end), FLIGHTS)
    (gate,) = found.gates
    assert gate["duty"] == pytest.approx(share_of(scene, told.closed)) == pytest.approx(10.5 / 40)
    shares = {row["user"]: row["share"] for row in found.producers}
    assert shares == {name: pytest.approx(share_of(scene, spans)) for name, spans in told.blocked.items()}
    assert shares == {"pika": pytest.approx(11 / 40), "aiormq": pytest.approx(12 / 40)}
    assert gate["share"] == pytest.approx(23 / 40)
    text = page(found)
    assert "12.0 s, 30.0% of the time" in text
    assert "23.0 s, 0.57 blocked on average" in text
    assert "queue 'flights' was closed for 10.5 s (26.2% of the recorded 40.0 s)" in summary(found)
