"""The Python blocks of the pages on Spark run as a reader runs them: as programs, in a fresh folder, to their end.

The short run has the first program, in the session of these tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.spark.conftest import RunningBroker, running, until
from tests.support.brokers import serving
from tests.support.spark_programs import DOCS, beside, environment, here, interrupt, run, run_in_session, snippets
from tests.support.walkthrough import Walkthrough, steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHECKS = """
print(hour.count(), "in the hour", hour.columns[:3])
print(parsed.columns)
print("lag", lag(query) if query.lastProgress.sources else None)
import glob
import pyarrow.parquet as pq
print(sum(pq.read_table(folder).num_rows for folder in glob.glob("bills/*")), "copied by foreachBatch")
print(spark.streams._jsqm.listListeners().__len__(), "listeners")
"""
"""What the blocks of docs/spark.md have made."""
LAST = "1 listeners"
CHECKPOINTS = '"checkpoints/'
"""How the first program names its checkpoint, in a folder of its own."""


@pytest.mark.slow
def test_first_program_names_a_missing_queue_and_copies_orders_once(
    spark: SparkSession, second_broker: RunningBroker, tmp_path: Path
) -> None:
    program = tmp_path / "copy_orders.py"
    code = here(snippets("spark.md")[0], second_broker.address, tmp_path)
    assert code.count(CHECKPOINTS) == 1
    program.write_text(code.replace(CHECKPOINTS, f'"{tmp_path}/checkpoints/'))
    with pytest.raises(Exception, match="no queue 'orders' in vhost '/'; declare it first"):
        run_in_session(program)
    assert second_broker.control("list", kind="cursors")["items"] == []
    for queue in ("orders", "bills"):
        second_broker.declare(name=queue)
    second_broker.publish("orders", [b"one", b"two", b"three"])
    assert [run_in_session(program) for _ in range(2)] == ["3 orders copied\n", "0 orders copied\n"]
    assert (second_broker.depth("orders"), second_broker.depth("bills")) == (0, 3)


@pytest.mark.long
def test_first_program_without_its_queues_names_the_queue_and_fails(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    folder.mkdir()
    with running() as broker:
        (folder / "copy_orders.py").write_text(here(snippets("spark.md")[0], broker.address, folder))
        done = run(folder, "copy_orders.py")
        assert (done.returncode, done.stdout) == (1, "")
        assert "no queue 'orders' in vhost '/'; declare it first (penstock queues declare orders)" in done.stderr
        assert broker.control("list", kind="cursors")["items"] == []


@pytest.mark.long
def test_first_program_runs_step_by_step_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fresh"
    folder.mkdir()
    for name, value in environment(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with serving(tmp_path) as broker:
        reader = Walkthrough(broker, folder)
        found = steps((DOCS / "spark.md").read_text())
        assert [step.kind for step in found] == ["console", "console"]
        (folder / "copy_orders.py").write_text(here(snippets("spark.md")[0], f"{broker.host}:{broker.port}", folder))
        for step in found:
            reader.take(step)
        assert (broker.depth("orders"), broker.depth("bills")) == (0, 3)


@pytest.mark.long
def test_blocks_of_all_pages_run_in_their_order_to_their_end(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    folder.mkdir()
    with running() as broker:
        for queue in ("orders", "bills"):
            broker.declare(name=queue)
        broker.control("cursor.attach", cursor="copies", queues=["orders"], starting="earliest", create=True)
        broker.publish("orders", [b"%d" % number for number in range(20)])
        (endless,) = snippets("spark-elsewhere.md")
        blocks = [*snippets("spark.md"), CHECKS, endless]
        assert all("broker:" not in block for block in blocks), "an address that is none"
        (folder / "pages.py").write_text("\n".join(here(block, broker.address, folder) for block in blocks))
        with beside(folder, "pages.py") as (process, output):

            def printed(text: str) -> bool:
                assert process.poll() is None or text in output.read_text(), output.read_text()[-4000:]
                return text in output.read_text()

            until(lambda: printed(LAST), "the blocks of the page have ended")
            shown = (
                "20 orders copied",
                "0 in the hour ['queue', 'sequence', 'timestamp']",
                "['sequence', 'order']",
                "'maxOffsetsBehindLatest': '0'",
                "20 copied by foreachBatch",
            )
            for text in shown:
                assert text in output.read_text()
            assert (broker.depth("orders"), broker.depth("bills")) == (0, 20)
            for cursor in ("billing", "copies"):
                broker.control("cursor.delete", cursor=cursor)
            broker.publish("orders", [b"%d" % number for number in range(20)])
            until(lambda: printed("") and broker.depth("orders") == 0, "all are acknowledged")
            interrupt(process)
        assert pq.read_table(folder / "data" / "orders").num_rows == 20
