"""The tables of options in the documentation have each option, and their defaults are those of the code."""

from __future__ import annotations

import pytest

from pyspark_penstock.option_table import REQUIRED
from tests.support.spark_option_tables import TABLES, rows

AS_FOR_PENSTOCK = {
    "columns", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "fetchWait",
}  # fmt: skip
"""Options of the source amqp of which its page says that they are those of the source penstock."""


@pytest.mark.parametrize("name", TABLES)
def test_option_is_documented_once_with_its_default(name: str) -> None:
    table = TABLES[name]
    listed = [option.name for row in rows(name) for option in row.options(table)]
    more = AS_FOR_PENSTOCK if name == "source amqp" else set()
    assert sorted([*listed, *more]) == sorted(option.name for option in table)
    for row in rows(name):
        found = row.options(table)
        given = (row.default or "").replace("`", "").split(", ")
        for option, said in zip(found, given if len(given) == len(found) else len(found) * given[:1], strict=True):
            if option.default is REQUIRED:
                assert "required" in row.default_in(table), option.name
            elif row.default and option.default is not None and said not in ("as above", "as for a stream"):
                assert option.name == "tlsKeyPassword" or option.kind.read(option.name, said) == option.default, (
                    option.name
                )
