"""The part of the tutorial with Spark: its program holds the publisher back, lets it go on, and ends by Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.conftest import until
from tests.support.brokers import serving
from tests.support.spark_programs import DOCS, beside, interrupt
from tests.support.walkthrough import Step, Walkthrough, shows, steps

pytestmark = [pytest.mark.spark, pytest.mark.long]

PAGE = (DOCS / "tutorial" / "first-hour.md").read_text()
HEADING = "## A Spark query as the brake"
SLOW = "time.sleep(0.5)"
ASKED = "asked"
UNTIL_ASKED = f"while not __import__('os').path.exists('{ASKED}'): time.sleep(0.05)"
"""In place of the half second: the first batch ends when the reader has asked why, however slow the machine is."""


def test_first_hours_query_is_the_brake_of_its_publisher(tmp_path: Path) -> None:
    before, _, part = PAGE.partition(HEADING)
    prepared = [step for step in steps(before) if "queues declare" in step.text or step.title == "publisher.py"]
    whole = steps(part)
    at = [step.title for step in whole].index("Spark")
    folder = tmp_path / "fresh"
    folder.mkdir()
    with serving(tmp_path) as broker:
        reader = Walkthrough(broker, folder, 300)
        try:
            for step in [*prepared, *whole[:at]]:
                reader.take(step)
            slow_down(folder / "brake.py")
            with beside(folder, "brake.py") as (process, output):
                ((_, printed),) = whole[at].commands()
                for step in whole[at + 1 :]:
                    reader.take(step)
                    if is_question(step):
                        (folder / ASKED).touch()
                reader.end()
                until(lambda: broker.queue("orders")["depth"]["messages"] == 0, "the query has settled every order")
                interrupt(process)
                assert shows(output.read_text().splitlines(), printed), output.read_text()
                assert process.returncode != 0
                assert [line for line in output.read_text().splitlines() if line.startswith("penstock: ")] == []
        finally:
            reader.kill()


def slow_down(program: Path) -> None:
    """Have the first batch take its time until the reader has asked why."""
    code = program.read_text()
    assert code.count(SLOW) == 1
    program.write_text(code.replace(SLOW, UNTIL_ASKED))


def is_question(step: Step) -> bool:
    """Return whether the reader asks why in a step, and is answered that the query is the brake."""
    return step.title == "Terminal 3" and "waits for cursor billing" in step.text
