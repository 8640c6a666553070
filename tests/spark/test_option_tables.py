"""The tables of options in the documentation are whole, and their defaults are those of the code."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from pyspark_amqp import options as amqp
from pyspark_penstock import batch_options, options
from pyspark_penstock.option_table import REQUIRED, Option

DOCS = Path(__file__).resolve().parents[2] / "docs"
AS_FOR_PENSTOCK = {
    "columns", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "fetchWait",
}  # fmt: skip
"""Options of the source amqp of which its page says that they are those of the source penstock."""


def tables(page: str) -> list[dict[str, str]]:
    """Return the tables of options of a page: the default of each name, an empty one for what has no default."""
    found: list[dict[str, str]] = []
    for table in (DOCS / page).read_text().split("| option | default | |\n|---|---|---|\n")[1:]:
        found.append({})
        for line in table.split("\n\n")[0].splitlines():
            names, default = line.removeprefix("| ").replace("| |", "|  |").split(" | ")[:2]
            listed = re.findall(r"`([^`]+)`", names)
            given = default.replace("`", "").split(", ")
            found[-1] |= dict(zip(listed, given if len(given) == len(listed) else len(listed) * [default], strict=True))
    return found


def whole(listed: dict[str, str], table: Sequence[Option]) -> set[str]:
    """Return the names of a table, with those that a star stands for."""
    known = [option.name for option in table]
    found: set[str] = set()
    for name in listed:
        found |= {each for each in known if each.startswith(name[:-1])} if name.endswith("*") else {name}
    return found


SOURCE, BATCH, SINK = tables("spark.md")[:3]
(AMQP,) = [table for table in tables("spark-amqp.md") if "spool" in table]


@pytest.mark.parametrize(
    ("listed", "table", "more"),
    [
        (SOURCE, options.SOURCE, set()),
        (BATCH, batch_options.BATCH, set()),
        (SINK, options._SINK, set()),
        (AMQP, amqp._SOURCE, AS_FOR_PENSTOCK),
    ],
    ids=["source", "batch", "sink", "amqp"],
)
def test_each_option_is_documented_with_its_default(
    listed: dict[str, str], table: Sequence[Option], more: set[str]
) -> None:
    assert sorted(whole(listed, table) | more) == sorted(option.name for option in table)
    for option in table:
        said = listed.get(option.name, "").strip("` ")
        if option.default is REQUIRED:
            assert "required" in said, option.name
        elif option.default is not None and option.name in listed and said not in ("as above", "as for a stream"):
            assert option.name in ("columns", "tlsKeyPassword") or option.parse(said) == option.default, option.name
