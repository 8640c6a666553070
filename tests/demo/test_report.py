"""The figures at the end, and a check that fails loudly."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from demo import report
from demo.data import Totals
from demo.report import Publisher, Run, figures, ledger, totals_of, verdict
from demo.watch import Story, story
from penstock.connections.control_request import ControlRequest
from penstock.management.redaction import answer_why
from tests.support.access_of import access_of
from tests.support.closed_publishers import recording_driver
from tests.support.driven_connection import Dialogue, drain, publish

QUEUE, USER = "q", "guest"


def held_publisher() -> tuple[dict[str, Any], Story]:
    """Let a queue hold a publisher for 1.5 s; return what the broker says of it, and what its flow log tells."""
    driver = recording_driver()
    client = Dialogue(driver)
    client.declare(QUEUE, capacity_bytes=1_000)
    client.confirm()
    client.say(publish(QUEUE, b"x" * 100) * 3)
    client.listen(101.5)
    drain(driver, QUEUE)
    asked = json.dumps({"queue": QUEUE}).encode()
    access = access_of(driver.broker, USER)
    view = answer_why(ControlRequest(driver.broker.vhost("/"), None, None, None, asked, access), driver)
    return json.loads(json.dumps(view)), story(driver.take_records(), QUEUE, 0.0)


VIEW, STORY = held_publisher()


def run_of(found: Totals) -> Run:
    expected = {("UA", 6): Totals(3, 1, 20, 10, 99)}
    publisher = Publisher(USER, 3, 3, 5.0, 0.5)
    batches = {0: (101.0, 1), 1: (102.0, 1), 2: (104.0, 1)}
    return Run([publisher], batches, 100.0, 110.0, VIEW, 3, expected, {("UA", 6): found})


GOOD = run_of(Totals(3, 1, 20, 10, 99))


def complaints(run: Run, flights: int = 3, told: Story = STORY) -> list[str]:
    return report.complaints(run, told, flights)


def test_totals_that_agree_leave_nothing_to_complain_about():
    assert complaints(GOOD) == []
    assert verdict(GOOD, [])[0].startswith("Check      the totals of all 1 groups")


def test_lost_flight_is_reported_with_its_carrier_and_hour():
    lost = run_of(Totals(2, 1, 20, 10, 66))
    first, *sentences = verdict(lost, complaints(lost))
    assert first == "CHECK FAILED"
    assert sentences[0] == "  3 flights were sent and 2 processed"
    assert sentences[1].startswith("  UA at 06:00: the source has Totals(flights=3")
    assert (lost.lost, lost.doubled) == (1, 0)


def test_checksum_that_differs_alone_is_enough_to_fail():
    assert len(complaints(run_of(Totals(3, 1, 20, 10, 98)))) == 1


def test_group_that_only_one_side_knows_is_a_difference():
    strange = replace(GOOD, found={**GOOD.found, ("XX", 9): Totals()})
    assert complaints(strange) == [f"XX at 09:00: the source has nothing, Spark {Totals()}"]


def test_flights_that_were_never_sent_are_a_complaint():
    assert complaints(GOOD, 4) == ["3 flights were sent where 4 were due"]


def test_gate_that_never_closed_is_a_complaint():
    view = {**VIEW, "gate": {**VIEW["gate"], "crossings": 0}}
    assert complaints(replace(GOOD, view=view), told=Story()) == [
        "the gate has never closed, so the picture shows no flow control: choose a smaller --capacity"
    ]


def test_flow_log_that_differs_from_the_counts_of_the_broker_is_a_complaint():
    assert complaints(GOOD, told=Story()) == ["the flow log has 0 closings of the gate where the broker counted 1"]


def test_figures_show_losses_depth_blocks_and_pace():
    text = "\n".join(figures(GOOD))
    assert "3 sent, 3 processed, 0 lost, 0 doubled" in text
    highest = VIEW["highest"]
    assert f"highest depth {highest['bytes']:,} of 1,000 bytes" in text
    assert f"{highest['messages']} messages)" in text
    assert "closed 1 times, 1.5 s of 10.0 s" in text
    assert "one every 1.50 s (median); 3 summaries" in text
    row = next(line for line in text.splitlines() if line.startswith(USER))
    assert row.split()[:4] == [USER, "3", "3", "1"]
    assert "1.5 s (15%)" in row


def test_producer_that_came_back_is_one_line_of_the_ledger():
    blocks = VIEW["gate"]["producers"]
    (once,), (twice,) = (
        ledger({"gate": {"producers": blocks, "departed": departed}}).values() for departed in ([], blocks)
    )
    assert once["total_s"] == 1.5
    assert twice == {name: 2 * count for name, count in once.items()}


def test_totals_are_read_from_every_parquet_file_of_a_folder(tmp_path: Path):
    names = ("flights", "cancelled", "departure_delay", "arrival_delay", "checksum")
    for number, hour in enumerate((6, 6, 7)):
        row = {"carrier": ["UA"], "hour": [hour], **{name: [place] for place, name in enumerate(names)}}
        pq.write_table(pa.table(row), tmp_path / f"part-{number}.parquet")
    assert totals_of(tmp_path) == {("UA", 6): Totals(0, 2, 4, 6, 8), ("UA", 7): Totals(0, 1, 2, 3, 4)}
