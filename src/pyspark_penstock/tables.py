"""Options of tables: Spark gives them to the look-up of the schema alone, and neither to a query nor to a stream.

So the schema of a table has them, as the comment of its first column. Secrets are left out: Spark shows comments.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark_penstock.option_table import Option, is_of_table, without_spark_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BEGINS = "penstock options "


def table_comment(given: Mapping[str, object], known: tuple[Option, ...]) -> str:
    """Return the comment with the options of a table; empty if they are not those of a table."""
    if not is_of_table(given):
        return ""
    open_ = {option.name.lower() for option in known if not option.secret}
    options = {key: text for key, text in without_spark_options(given, frozenset()).items() if key.lower() in open_}
    return _BEGINS + json.dumps(options, sort_keys=True)


def with_table_options(
    given: Mapping[str, object], schema: "StructType", known: tuple[Option, ...]
) -> Mapping[str, object]:
    """Return the options of a read, and those of its table that are known to it and not given again.

    A batch read of a table with queues reads all that is there: what its cursor has not read is for streams.
    """
    comment = schema.fields[0].metadata.get("comment", "") if schema.fields else ""
    if not comment.startswith(_BEGINS):
        return given
    table = json.loads(comment.removeprefix(_BEGINS))
    keys = {key.lower() for key in table}
    names = {option.name.lower(): option for option in known}
    leaves = {key.lower() for key in given}
    if "cursor" in names and names["cursor"].default is None and keys & {"subscribe", "subscribepattern", "assign"}:
        leaves.add("cursor")
    return {**{key: text for key, text in table.items() if key.lower() in names.keys() - leaves}, **given}
