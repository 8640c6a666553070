"""Table of options: parsing, defaults, and one sentence for an unknown, missing or impossible option; without I/O.

Spark passes all options through, with keys in any case, and a misspelt limit is worse than none. So an option that is
not in the table is refused with a near match.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark_penstock.errors import OptionError
from pyspark_penstock.kafka_options import kafka_advice

REQUIRED: Final = object()
"""Default of an option that must be given."""

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
    """Option of a table; `parse` raises ``ValueError`` with the second half of a sentence."""

    name: str
    parse: Callable[[str], Any]
    default: Any = REQUIRED
    secret: bool = False
    """True if no error may show the value."""


def parse_options(
    owner: str, table: tuple[Option, ...], given: Mapping[str, object], elsewhere: Mapping[str, str]
) -> dict[str, Any]:
    """Return the value of every option in the table, by its name.

    `owner` is the subject of errors, such as "the penstock source"; `elsewhere` has the owners of other options. Raises
    `OptionError` in one sentence for an unknown, missing or impossible option.
    """
    texts = {key.lower(): (key, str(text)) for key, text in given.items()}
    for key, (spelt, _) in texts.items():
        if key not in {option.name.lower() for option in table}:
            raise OptionError(unknown_option(spelt, owner, table, elsewhere))
    return {option.name: _value(owner, option, texts.get(option.name.lower())) for option in table}


def _value(owner: str, option: Option, found: tuple[str, str] | None) -> Any:
    if found is None:
        if option.default is REQUIRED:
            raise OptionError(f"{owner} needs the option {option.name}")
        return option.default
    try:
        return option.parse(found[1].strip())
    except ValueError as error:
        shown = "" if option.secret else f" = '{_without_secrets(found[1])}'"
        raise OptionError(f"option {option.name}{shown} {error}") from None


def _without_secrets(text: str) -> str:
    """Return a value for display without secrets: the text before an @ may be a password."""
    return re.sub(r"[^\s,/]*@", "***@", text)


def unknown_option(key: str, owner: str, table: tuple[Option, ...], elsewhere: Mapping[str, str] | None = None) -> str:
    """Return the sentence that refuses an option: its owner, a near match, or all known options."""
    text = f"{owner} has no option '{key}'"
    for name, other in (elsewhere or {}).items():
        if name.lower() == key.lower():
            return f"{text}: {name} is an option of {other}"
    spellings = {option.name.lower(): option.name for option in table}
    advice = kafka_advice(key, frozenset(spellings))
    if advice:
        return f"{text}, which is one of Kafka's; {advice}"
    near = difflib.get_close_matches(key.lower(), spellings, n=1, cutoff=0.6)
    return f"{text}; did you mean {spellings[near[0]]}?" if near else f"{text}; it has {', '.join(spellings.values())}"


def is_of_table(given: Mapping[str, object]) -> bool:
    """Return whether options belong to a table, as in the look-up of its schema."""
    return any(key.lower() == "provider" or key.lower().startswith(_OF_TABLE) for key in given)


def without_spark_options(given: Mapping[str, object], others: frozenset[str]) -> dict[str, object]:
    """Return options without those that Spark adds: `others`, and a table's options if they belong to a table."""
    keys = {key.lower() for key in given}
    added = others | (_OF_TABLES if "provider" in keys else frozenset())
    added |= {key for key in keys if key.startswith(_OF_TABLE) and key.removeprefix(_OF_TABLE) in keys}
    return {key: text for key, text in given.items() if key.lower() not in added}
