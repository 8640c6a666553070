"""Each Python program with Spark, in the documentation and in the examples, is run by a test or has a reason here."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.spark_programs import BLOCK

ROOT = Path(__file__).resolve().parents[2]
SPARK = re.compile(r"\bspark\b|\bpyspark\w*\b", re.IGNORECASE)
IMPORT = re.compile(r"^\s*(from|import) pyspark", re.MULTILINE)
SNIPPETS = "tests/spark/test_snippets.py::test_blocks_of_all_pages_run_in_their_order_to_their_end"
RUN = {
    "docs/spark.md": SNIPPETS,
    "docs/spark-elsewhere.md": SNIPPETS,
    "docs/tutorial/first-hour.md": "tests/spark/test_tutorial.py::test_first_hours_query_is_the_brake_of_its_publisher",
    "docs/audit-log.md": "tests/spark/test_log_pages.py::test_blocks_of_both_pages_read_the_logs_of_a_broker",
    "docs/flow-log.md": "tests/spark/test_log_pages.py::test_blocks_of_both_pages_read_the_logs_of_a_broker",
    "examples/clients/spark_orders.py": "tests/spark/test_examples.py::test_orders_are_billed_once_over_two_runs",
    "examples/rabbitmq_to_parquet/job.py": (
        "tests/spark/test_examples.py::test_job_of_rabbitmq_to_parquet_shows_the_messages_that_it_has_written"
    ),
    "examples/pipelines/transformations/orders.py": (
        "tests/spark/test_deployments.py::test_declarative_pipeline_continues_in_the_second_run"
    ),
    "examples/visits/visits.py": "tests/spark/test_examples.py::test_visits_runs_once_as_its_page_says",
}
"""Tests that run all programs of a page, or an example."""
NOT_RUN: dict[str, str] = {}
"""Pages and examples whose programs no test runs, with the reason."""


def with_spark() -> set[str]:
    """Return the pages with Python blocks for Spark, and the examples that use Spark."""
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md")]
    found = {page for page in pages if any(SPARK.search(code) for _, code in BLOCK.findall(page.read_text()))}
    found |= {each for each in (ROOT / "examples").rglob("*.py") if IMPORT.search(each.read_text())}
    return {str(path.relative_to(ROOT)) for path in found}


def test_program_with_spark_is_run_or_has_a_reason() -> None:
    assert with_spark() == RUN.keys() | NOT_RUN.keys()
    assert not RUN.keys() & NOT_RUN.keys()


def test_blocks_of_pages_with_spark_compile() -> None:
    for page in RUN.keys() - {each for each in RUN if each.endswith(".py")}:
        for number, (_, code) in enumerate(BLOCK.findall((ROOT / page).read_text())):
            compile(code, f"{page}, block {number}", "exec")


def test_tests_of_programs_with_spark_exist_and_name_their_program() -> None:
    for program, test in RUN.items():
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text()
        assert f"def {name}(" in text, test
        assert Path(program).name in text or "first-hour" in text or "pipelines" in text, program
