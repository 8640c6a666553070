"""A full queue that blocks its senders many times a second: its logs are bounded and complete in sums."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from bench import loadgen
from penstock.logs import flowlog
from penstock.management.gate_lines import CLOSINGS_AT_ONCE, TOLD_A_SECOND
from tests.support.brokers import serving
from tests.support.http_client import Web
from tests.support.metrics import samples_of

LINKS = 64
LOAD = ("--warm-up", "0.1", "--seconds", "3", "--links", str(LINKS), "--confirms", "100")
OF_A_GATE = ("gate-closed", "gate-opened")
OF_A_BLOCK = ("blocked", "unblocked")


def test_records_and_lines_of_a_full_queue_are_bounded_and_complete(tmp_path: Path) -> None:
    """64 links of AMQP 1.0 share 720 places, and a consumer empties the queue all the time.

    Bounds are for each second of the broker's own clock, so a slow machine has more seconds and fewer blocks.
    """
    try:
        loadgen.build(loadgen.AMQP1)
    except loadgen.LoadError as reason:
        pytest.skip(str(reason))
    folder = tmp_path / "data" / "flow-log"
    with serving(tmp_path, "--data", str(tmp_path / "data"), "--http", "127.0.0.1:0") as broker:
        loadgen.run(broker.port, *LOAD, "--argument", "capacity-messages=720", protocol=loadgen.AMQP1)
        samples = samples_of(Web(broker.http).fetch("/metrics").text)
        assert broker.stop() == 0
        lines = Counter(found[0] for line in broker.logged("") if (found := re.search(r"(?:QUE|CHN|PST)-1\d+", line)))
    records = list(flowlog.read(folder))
    events = Counter(record["event"] for record in records)
    summed: Counter[str] = Counter()
    for record in records:
        if record["event"].startswith("brief-"):
            summed[record["event"]] += record["count"]
    closed = events["gate-closed"] + summed["brief-closings"]
    blocks = events["blocked"] + summed["brief-blocks"]
    assert closed == samples["penstock_gate_crossings_total", "kind=queue"]
    assert blocks == samples["penstock_producer_blocks_total", "kind=queue"]
    assert blocks > 10 * LINKS, "the load is one that blocks often"
    seconds = 1 + records[-1]["mono"] - records[0]["mono"]
    assert sum(events[each] for each in OF_A_GATE) <= 2 * CLOSINGS_AT_ONCE * seconds
    assert events["brief-blocks"] <= LINKS * seconds
    assert events["blocked"] == events["unblocked"] <= TOLD_A_SECOND * seconds
    assert lines["QUE-1003"] + lines["CHN-1005"] <= (CLOSINGS_AT_ONCE + TOLD_A_SECOND) * seconds
    assert lines["PST-1023"] <= seconds
