"""Every table of named values refuses bad values in one sentence, which is that of the kind.

The sentence names the value, the rule and what was given. It is the same in settings, settings files, the environment,
options of the client and of Spark, words of commands, fields of control requests and keys of definitions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import pytest

from penstock.cli.common import OneOf, Word
from penstock.cli.grammar import main as root
from penstock.client.options import CONNECTION, OPTIONS, PUBLISHER, RECEIVER, Options, read_options
from penstock.connections.control_request import ControlRequest, check_fields
from penstock.errors import ConfigError, PreconditionFailed
from penstock.operations.definitions_import import rows
from penstock.operations.definitions_parser import SECRET, ParsedDefinitions
from penstock.settings.config import Settings, variable_of, with_environment
from penstock.settings.file_tables import BACK_END, OAUTH, TLS, read_back_end, read_tls, read_tokens
from penstock.settings.kind import (
    BYTES,
    COUNT,
    FLAG,
    INVALID,
    MILLISECONDS,
    NAMES,
    OBJECT,
    TEXT,
    Age,
    Choices,
    Flag,
    Kind,
    NamedValues,
    Number,
    Parsed,
    Strings,
    Table,
    Text,
)
from penstock.settings.read import kind_named, read_settings
from penstock.settings.start import RULES, Address, Shards, read_start
from penstock.settings.table import SCOPES
from penstock.texts import worded
from pyspark_amqp.options import amqp_options
from pyspark_penstock.errors import OptionError
from pyspark_penstock.options import sink_options, source_options
from tests.support.broker_fixture import House
from tests.support.spark_option_tables import TABLES

Read = Callable[[object], object]
HALF: Final = "a\ud800"
BEYOND: Final = 10**30
NUMBERS: Final = ("many", "", "5 parsecs", HALF, "1e30", "nan", BEYOND, math.nan, True, [], {})
BAD: Final[dict[type[Kind], tuple[object, ...]]] = {
    Number: NUMBERS,
    Shards: (*NUMBERS, "autos"),
    Age: (*NUMBERS, 7, "7", "7d5", "-1D", "D", "9999999999999999Y"),
    Flag: ("maybe", "", HALF, "5s", 7, BEYOND, math.nan, []),
    Choices: ("maybe not", "", HALF, 7, BEYOND, math.nan, True, []),
    Text: (HALF, 7, BEYOND, math.nan, True, [], {}),
    Address: (HALF, 7, BEYOND, math.nan, True, [], {}, ["a", "b"]),
    Strings: ([HALF], 7, BEYOND, math.nan, True, {}, ["a", 7]),
    Table: ("a", "", HALF, 7, BEYOND, math.nan, True, ["a"]),
}
"""Values that no kind of a class allows: wrong types, an unknown unit, empty, out of range, half a character."""


class Row(NamedTuple):
    """A named value of a table, and how the table reads it."""

    language: str
    name: str
    kind: Kind
    read: Read
    is_text: bool = False
    """True if everything is a text there."""
    secret: bool = False
    """True if the table shows no value."""


def error(at: tuple[str, ...], text: str) -> ConfigError:
    return ConfigError(f"{'.'.join(at)}: {text}")


def read_setting(scope: str, name: str, value: object) -> object:
    return read_settings(scope, "x", {name: value})


def of_settings() -> Iterator[Row]:
    for scope, kinds in SCOPES.items():
        for name, kind in kinds.items():
            yield Row("settings", name, kind_named(name, kind), partial(read_setting, scope, name))


def read_variable(name: str, value: object) -> object:
    return with_environment(Settings(), {variable_of(name): str(value)})


def of_start() -> Iterator[Row]:
    for field, rule in RULES.items():
        name = field.replace("_", "-")
        yield Row("start", name, rule.kind, partial(read_start, name))
        if not isinstance(rule.kind, Strings):
            yield Row("environment", name, rule.kind, partial(read_variable, field), is_text=True)


def read_table(read: Callable[..., object], least: dict[str, Any], name: str, value: object) -> object:
    return read({**least, name: value}, Path(), error)


def of_files() -> Iterator[Row]:
    tables: tuple[tuple[NamedValues, Callable[..., object], dict[str, Any]], ...] = (
        (OAUTH, read_tokens, {"resource_server_id": "a", "keys": "https://id.example/keys"}),
        (BACK_END, read_back_end, {"user_path": "https://auth.example/user"}),
        (TLS, read_tls, {"certificate": "a.pem"}),
    )
    for values, read, least in tables:
        for row in values.rows.values():
            yield Row("file tables", row.name, row.kind, partial(read_table, read, least, row.name))


def read_option(name: str, scope: str, value: object) -> object:
    return read_options([(name, value)], (scope,))


def of_client() -> Iterator[Row]:
    for option in OPTIONS:
        yield Row("client", option.name, option.kind, partial(read_option, option.name, option.scope))


def read_spark(read: Callable[..., object], least: dict[str, str], name: str, value: object) -> object:
    return read({**least, name: value})


def of_spark() -> Iterator[Row]:
    tables = (
        ("source", source_options, {"subscribe": "q", "cursor": "c"}),
        ("sink", sink_options, {"queue": "q"}),
        ("source amqp", amqp_options, {"subscribe": "q", "spool": "/s"}),
    )
    for table, read, least in tables:
        for option in TABLES[table]:
            yield Row("Spark", option.name, option.kind, partial(read_spark, read, least, option.name), is_text=True)


def commands(command: click.Command) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found)
    yield command


def kind_of_words(param: click.Parameter) -> Kind | None:
    if isinstance(param.type, OneOf):
        return Choices([*param.type.choices], folded=False)
    return param.type.kind if isinstance(param.type, Word) else None


def read_word(param: click.Parameter, value: object) -> object:
    return param.type.convert(value, param, None)


def of_commands() -> Iterator[Row]:
    for command in commands(root):
        for param in command.params:
            kind = kind_of_words(param)
            name = param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name
            if kind is not None:
                yield Row("commands", name, kind, partial(read_word, param), is_text=True)


def read_field(read: Callable[[ControlRequest], object], value: object) -> object:
    return read(ControlRequest(House().vhost, None, None, None, json.dumps({"x": value}).encode()))


def of_control() -> Iterator[Row]:
    readers: dict[Kind, Callable[[ControlRequest], object]] = {
        COUNT: lambda request: request.number("x"),
        BYTES: lambda request: request.size("x", 5),
        MILLISECONDS: lambda request: request.milliseconds("x", 5),
        FLAG: lambda request: request.flag("x"),
        TEXT: lambda request: request.text("x"),
        OBJECT: lambda request: request.table("x"),
        NAMES: lambda request: request.names("x"),
    }
    for kind, read in readers.items():
        yield Row("control requests", "x", kind, partial(read_field, read))


def parse(section: str, entry: dict[str, object]) -> None:
    found = ParsedDefinitions(json.dumps({section: [entry]}).encode(), "/", [row.section for row in rows(False)])
    while not found.complete:
        found.read()


def read_key(section: str, key: str, value: object) -> None:
    parse(section, {key: value})


def of_definitions() -> Iterator[Row]:
    for section in (row.section for row in rows(False)):
        for key, kind in section.keys.items() if not section.component else ():
            read = partial(read_key, section.name, key)
            yield Row("definitions", key, kind, read, secret=section.name in SECRET)


EVERY: Final = [
    row
    for rows_of in (of_settings, of_start, of_files, of_client, of_spark, of_commands, of_control, of_definitions)
    for row in rows_of()
    if type(row.kind) not in (Kind, Parsed)
]
LANGUAGES: Final = sorted({row.language for row in EVERY})


def refusal(row: Row, value: object) -> str:
    """Return the sentence with which a table refuses a value, without the name and what is before it."""
    with pytest.raises((PreconditionFailed, ConfigError, ValueError, OptionError, click.UsageError)) as refused:
        row.read(value)
    text = str(refused.value).removesuffix("; nothing was imported")
    before, must, after = text.partition(" must be ")
    assert must, text
    assert row.name in before, text
    assert "\n" not in text
    assert text.isprintable()
    return must + after


@pytest.mark.parametrize("row", EVERY, ids=[f"{row.language}: {row.name}" for row in EVERY])
def test_bad_value_is_refused_by_its_table_in_the_sentence_of_its_kind(row: Row) -> None:
    values = BAD[type(row.kind)]
    if row.is_text:
        values = tuple(str(value) for value in values) if not isinstance(row.kind, Text) else (HALF,)
    for value in values:
        if value == "" and row.language == "environment":
            continue  # An empty variable counts as missing.
        if value == HALF and row.language == "definitions":
            continue  # The reader of JSON refuses the file.
        said = refusal(row, value)
        assert said == row.kind.fault("", value, row.secret)
        assert worded(value) in said or row.secret or row.kind.secret


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (row, beyond)
        for row in EVERY
        if isinstance(row.kind, Number)
        for beyond in (row.kind.least - 1, row.kind.most + 1)
        if beyond not in row.kind.special and abs(beyond) < 1 << 70
    ],
)
def test_number_beyond_its_bounds_is_refused_with_the_bounds(row: Row, value: float) -> None:
    given = str(value) if row.is_text else value
    if row.kind.parse(given, row.language == "start") is INVALID:
        assert refusal(row, given) == row.kind.fault("", given)


@pytest.mark.parametrize("kind", [Flag, Number])
def test_languages_with_a_kind_refuse_it_alike(kind: type[Kind]) -> None:
    found: dict[str, set[str]] = {}
    for row in EVERY:
        if type(row.kind) is kind and not row.secret and row.kind.rule() in ("true or false", "a whole number from 0"):
            found.setdefault(refusal(row, "maybe"), set()).add(row.language)
    assert len(found) == 1
    assert len(next(iter(found.values()))) >= 4


MISSPELT: Final[dict[str, Callable[[], object]]] = {
    "settings": lambda: read_settings("queue", "x", {"capacity-mesages": 5}),
    "file tables": lambda: read_tls({"certificat": "a"}, Path(), error),
    "client": lambda: Options("amqp://?windw=5", {}),
    "publisher": lambda: read_options([("windw", 5)], (PUBLISHER,)),
    "receiver": lambda: read_options([("prefech", 5)], (RECEIVER,)),
    "connection": lambda: read_options([("timeot", 5)], (CONNECTION,)),
    "Spark": lambda: source_options({"subscrib": "q", "cursor": "c"}),
    "control requests": lambda: check_fields("queue.declare", ("durable",), {"durabel": True}),
    "definitions": lambda: parse("queues", {"name": "q", "durabel": True}),
}
"""Misspelt names by language; of commands click refuses misspelt options."""


@pytest.mark.parametrize("language", MISSPELT)
def test_misspelt_name_is_refused_with_the_nearest_name(language: str) -> None:
    with pytest.raises((PreconditionFailed, ConfigError, ValueError, OptionError)) as refused:
        MISSPELT[language]()
    text = str(refused.value)
    for part in (" has no ", "; did you mean "):
        assert part in text


def test_languages_are_all_walked() -> None:
    assert [
        *("Spark", "client", "commands", "control requests", "definitions", "environment", "file tables", "settings"),
        "start",
    ] == LANGUAGES
