"""The part of the tutorial with Spark: the query holds the publisher back, and lets it go on."""

import threading
from pathlib import Path

import pytest

from tests.spark.conftest import until
from tests.support.brokers import serving
from tests.support.walkthrough import Walkthrough, steps

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "first-hour.md").read_text()
HEADING = "## A Spark query as the brake"
SLOW, FOREVER = "time.sleep(0.5)", "query.awaitTermination()"


def test_first_hours_query_is_the_brake_of_its_publisher(spark, tmp_path):
    before, _, part = PAGE.partition(HEADING)
    prepared = [step for step in steps(before) if "queues declare" in step.text or step.title == "publisher.py"]
    asked = threading.Event()
    with serving(tmp_path) as broker:
        reader = Walkthrough(broker, tmp_path, 300)
        query = None
        try:
            for step in [*prepared, *steps(part)]:
                if step.title == "Spark":
                    query = started(tmp_path, asked)
                else:
                    reader.take(step)
                if step.title == "Terminal 3" and "waits for cursor billing" in step.text:
                    asked.set()  # The first batches may end: the reader has asked why.
            reader.end()
            until(lambda: broker.queue("orders")["depth"]["messages"] == 0, "the query has settled every order")
        finally:
            asked.set()
            reader.kill()
            if query is not None:
                query.stop()


def started(folder: Path, asked: threading.Event):
    """Start the query of the page, whose target takes its time until somebody has asked why."""
    code = (folder / "brake.py").read_text()
    assert SLOW in code
    assert FOREVER in code
    checkpoint = '"checkpoints/billing"'
    assert checkpoint in code
    code = code.replace(FOREVER, "").replace(SLOW, "asked.wait(300)").replace(checkpoint, f'"{folder}/checkpoints"')
    names: dict = {"asked": asked}
    exec(compile(code, "brake.py", "exec"), names)
    return names["query"]
