"""Table of options: kinds, defaults, and one sentence for an unknown, missing or impossible option; without I/O.

Spark passes all options through, with keys in any case, and a misspelt limit is worse than none. So an option that is
not in the table is refused with a near match.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.settings.kind import REQUIRED, InvalidValue, Kind, NamedValues, unknown_name
from pyspark_penstock.errors import OptionError
from pyspark_penstock.kafka_options import kafka_advice

# Spark adds options of its own: a query's options to a streaming sink, and a table's options (CREATE TABLE ... USING
# penstock) to both sides. Spark passes each option of a table twice, once with this prefix.
OF_QUERIES: Final = frozenset({"checkpointlocation", "queryname"})
"""Options, in lower case, that Spark adds to the options of a streaming sink."""
_OF_TABLES = frozenset(
    {"provider", "path", "owner", "location", "comment", "external", "is_managed_location", "collation", "table_type"}
)
_OF_TABLE = "option."


@dataclass(frozen=True, slots=True)
class Option:
    """Option of a table."""

    name: str
    kind: Kind
    default: Any = REQUIRED
    aliases: tuple[str, ...] = ()


def parse_options(
    owner: str, table: tuple[Option, ...], given: Mapping[str, object], elsewhere: Mapping[str, str]
) -> dict[str, Any]:
    """Return the value of every option in the table, by its name.

    `owner` is the subject of errors, such as "the penstock source"; `elsewhere` has the owners of other options. Raises
    `OptionError` in one sentence for an unknown, missing or impossible option.
    """
    known = {option.name.lower() for option in table}
    for key in given:
        if key.lower() not in known:
            raise OptionError(unknown_option(key, owner, table, elsewhere))
    values = NamedValues("option", table, str.lower, label="option {}")
    try:
        return values.read(owner, {key: str(text).strip() for key, text in given.items()})
    except InvalidValue as error:
        raise OptionError(str(error)) from None


def unknown_option(key: str, owner: str, table: tuple[Option, ...], elsewhere: Mapping[str, str] | None = None) -> str:
    """Return the sentence that refuses an option: its owner, a near match, or all known options."""
    text = f"{owner} has no option '{key}'"
    for name, other in (elsewhere or {}).items():
        if name.lower() == key.lower():
            return f"{text}: {name} is an option of {other}"
    names = [option.name for option in table]
    advice = kafka_advice(key, frozenset(name.lower() for name in names))
    if advice:
        return f"{text}, which is one of Kafka's; {advice}"
    return unknown_name(owner, "option", key, names, fold=str.lower)


def is_of_table(given: Mapping[str, object]) -> bool:
    """Return whether options belong to a table, as in the look-up of its schema."""
    return any(key.lower() == "provider" or key.lower().startswith(_OF_TABLE) for key in given)


def without_spark_options(given: Mapping[str, object], others: frozenset[str]) -> dict[str, object]:
    """Return options without those that Spark adds: `others`, and a table's options if they belong to a table."""
    keys = {key.lower() for key in given}
    added = others | (_OF_TABLES if "provider" in keys else frozenset())
    added |= {key for key in keys if key.startswith(_OF_TABLE) and key.removeprefix(_OF_TABLE) in keys}
    return {key: text for key, text in given.items() if key.lower() not in added}
