"""The Python snippets of the documentation run as they stand, page by page, against the broker of the tests."""

import re
from pathlib import Path

import pytest
from pyspark.sql.streaming import StreamingQueryManager

from tests.spark.conftest import until

pytestmark = pytest.mark.spark

DOCS = Path(__file__).resolve().parents[2] / "docs"
ADDRESS = "127.0.0.1:5672"


def snippets(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def here(snippet: str, address: str, folder: Path) -> str:
    """Return a snippet with the address of a broker, and a folder for the paths below the working directory."""
    moved = snippet.replace(ADDRESS, address).replace("rabbit:5672", address)
    return re.sub(r'"(/data/|(?=(?:checkpoints|bills)/))', rf'"{folder}/', moved)


def cursors(broker) -> set[str]:
    return {cursor["name"] for cursor in broker.control("list", kind="cursors")["items"]}


def test_snippets_of_the_pages_on_spark_run_as_they_stand(spark, broker, tmp_path, monkeypatch):
    for queue in ("orders", "bills"):
        broker.declare(name=queue)
    broker.publish("orders", [b"%d" % number for number in range(20)])
    names: dict[str, object] = {"spark": spark}
    listeners: list[object] = []
    add = StreamingQueryManager.addListener
    monkeypatch.setattr(
        StreamingQueryManager, "addListener", lambda self, each: (listeners.append(each), add(self, each))
    )
    try:
        for page in ("spark.md", "spark-operation.md", "spark-recipes.md"):
            found = snippets(page)
            assert found, page
            for snippet in found:
                assert "broker:" not in snippet, "an address that is none"
                exec(compile(here(snippet, broker.address, tmp_path), page, "exec"), names)
            # A message leaves when all cursors have settled it, and the next page has another query on the queue.
            until(lambda: "billing" in cursors(broker), "the first query is attached")
        names["query"].processAllAvailable()
        assert broker.depth("bills") == 20
        names["copies"].processAllAvailable()
        until(lambda: broker.depth("orders") == 0, "both queries have settled")
        assert len(names["parsed"].columns) == 2
    finally:
        for query in spark.streams.active:
            query.stop()
        for listener in listeners:
            spark.streams.removeListener(listener)
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
        for cursor in {"billing", "copies"} & cursors(broker):
            broker.control("cursor.delete", cursor=cursor)
        for queue in ("orders", "bills"):
            broker.delete(queue)


def test_snippet_of_the_page_on_other_brokers_runs_as_it_stands(spark, broker, tmp_path):
    broker.declare(name="orders")
    broker.publish("orders", [b"%d" % number for number in range(20)])
    (snippet,) = snippets("spark-amqp.md")
    names: dict[str, object] = {"spark": spark}
    try:
        exec(compile(here(snippet, broker.address, tmp_path), "spark-amqp.md", "exec"), names)
        names["query"].processAllAvailable()
        until(lambda: broker.depth("orders") == 0, "all are acknowledged")
        assert spark.read.parquet(str(tmp_path / "orders")).count() == 20
    finally:
        for query in spark.streams.active:
            query.stop()
        broker.delete("orders")
