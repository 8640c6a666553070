"""The Python blocks of the pages on the flow log and the audit log run on the logs of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.logs import flowlog
from tests.spark.conftest import until
from tests.support.brokers import penstock_command, serving
from tests.support.spark_programs import snippets

pytestmark = pytest.mark.spark

PAGES = ("flow-log.md", "audit-log.md")
"""docs/flow-log.md and docs/audit-log.md."""


def test_blocks_of_both_pages_read_the_logs_of_a_broker(
    spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as broker:
        for words in (["queues", "declare", "orders"], ["users", "add", "ann", "--no-password"]):
            assert penstock_command(*words, "--url", broker.url).returncode == 0
        done = penstock_command("queues", "publish", "orders", "one", "--url", broker.url)
        assert done.returncode == 0, done.stderr
        until(lambda: "orders" in {each.get("queue") for each in flowlog.read(data / "flow-log")}, "it is recorded")
    names: dict[str, object] = {"spark": spark}
    for page in PAGES:
        for block in snippets(page):
            exec(compile(block.replace('"DIR/', f'"{data}/'), page, "exec"), names)
    printed = capsys.readouterr().out
    assert " depth " in printed, "the flow log's records"
    assert "|guest| user.declare|    1|" in printed, "the table of the audit log"
    assert names["closed"].columns == list(flowlog.FIELDS)
