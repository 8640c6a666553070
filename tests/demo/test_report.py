"""The figures at the end, and a check that fails loudly."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from demo.data import Totals
from demo.report import Publisher, Run, complaints, figures, ledger, totals_of, verdict

BLOCK = {"producer": "con:2(pika@127.0.0.1:40312/)/ch:1", "times": 3, "total_s": 1.5, "withheld": 20, "held": 7}
VIEW = {
    "capacity": {"bytes": 1_000, "messages": None},
    "stop": {"bytes": 800, "messages": None},
    "resume": {"bytes": 700, "messages": None},
    "highest": {"bytes": 990, "messages": 3},
    "gate": {"crossings": 2, "closed_s": 4.0, "producers": [], "departed": [BLOCK]},
}


def run_of(found: Totals) -> Run:
    expected = {("UA", 6): Totals(3, 1, 20, 10, 99)}
    publisher = Publisher("pika", 3, 3, 5.0, 0.5)
    batches = {0: (101.0, 1), 1: (102.0, 1), 2: (104.0, 1)}
    return Run([publisher], batches, 100.0, 110.0, VIEW, 3, expected, {("UA", 6): found})


GOOD = run_of(Totals(3, 1, 20, 10, 99))


def test_totals_that_agree_leave_nothing_to_complain_about():
    assert complaints(GOOD, 3) == []
    assert verdict(GOOD, 3)[0].startswith("Check      the totals of all 1 groups")


def test_lost_flight_is_told_loudly_with_its_carrier_and_hour():
    lost = run_of(Totals(2, 1, 20, 10, 66))
    first, *sentences = verdict(lost, 3)
    assert first == "CHECK FAILED"
    assert sentences[0] == "  3 flights were sent and 2 processed"
    assert sentences[1].startswith("  UA at 06:00: the source has Totals(flights=3")
    assert (lost.lost, lost.doubled) == (1, 0)


def test_checksum_that_differs_alone_is_enough_to_fail():
    assert len(complaints(run_of(Totals(3, 1, 20, 10, 98)), 3)) == 1


def test_group_that_only_one_side_knows_is_a_difference():
    strange = replace(GOOD, found={**GOOD.found, ("XX", 9): Totals()})
    assert complaints(strange, 3) == [f"XX at 09:00: the source has nothing, Spark {Totals()}"]


def test_flights_that_were_never_sent_are_a_complaint():
    assert complaints(GOOD, 4) == ["3 flights were sent where 4 were due"]


def test_figures_tell_losses_depth_blocks_and_pace():
    text = "\n".join(figures(GOOD))
    assert "3 sent, 3 processed, 0 lost, 0 doubled" in text
    assert "highest depth 990 of 1,000 bytes (99.0%; 3 messages)" in text
    assert "closed 2 times, 4.0 s of 10.0 s" in text
    assert "one every 1.50 s (median); 3 summaries" in text
    row = next(line for line in text.splitlines() if line.startswith("pika"))
    assert row.split()[:4] == ["pika", "3", "3", "3"]
    assert "1.5 s (15%)" in row


def test_producer_that_came_back_is_one_line_of_the_ledger():
    view = {"gate": {"producers": [BLOCK], "departed": [BLOCK]}}
    assert ledger(view) == {"pika": {"times": 6, "total_s": 3.0, "withheld": 40, "held": 14}}


def test_totals_are_read_from_every_parquet_file_of_a_folder(tmp_path: Path):
    names = ("flights", "cancelled", "departure_delay", "arrival_delay", "checksum")
    for number, hour in enumerate((6, 6, 7)):
        row = {"carrier": ["UA"], "hour": [hour], **{name: [place] for place, name in enumerate(names)}}
        pq.write_table(pa.table(row), tmp_path / f"part-{number}.parquet")
    assert totals_of(tmp_path) == {("UA", 6): Totals(0, 2, 4, 6, 8), ("UA", 7): Totals(0, 1, 2, 3, 4)}
