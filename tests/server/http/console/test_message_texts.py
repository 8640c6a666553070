"""Texts of messages in the console: JSON as it is written, bodies of AMQP 1.0, and words of the filter line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page


def call(page: Page, script: str, name: str, *arguments: object) -> Any:
    """Call a function of a script of the console; what it throws is returned as text."""
    return page.evaluate(
        """async ([script, name, given]) => {
            const module = await import(`/static/${script}`);
            try { return module[name](...given); } catch (error) { return error.message; }
        }""",
        [script, name, list(arguments)],
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a":9007199254740993,"a":1.0}', '{\n  "a": 9007199254740993,\n  "a": 1.0\n}'),
        ('[{},[],"],{\\""]', '[\n  {},\n  [],\n  "],{\\""\n]'),
        ('{"a":', None),
        ("", None),
    ],
)
def test_json_is_parted_into_lines_without_a_change(page: Page, text: str, shown: str | None) -> None:
    assert call(page, "json.js", "pretty", text) == shown


def test_parts_of_json_keep_their_text_and_their_place(page: Page) -> None:
    text = '{"a": [1, {"b": "],"}], "c\\"d": 9007199254740993 , "e": {}}'
    found = call(page, "json.js", "parts", text)
    assert [each[:2] for each in found] == [["a", '[1, {"b": "],"}]'], ['c"d', "9007199254740993"], ["e", "{}"]]
    assert all(text[place:].startswith(part) for _, part, place in found)
    assert call(page, "json.js", "parts", " [1, [2] ]") == [[None, "1", 2], [None, "[2]", 5]]
    assert call(page, "json.js", "parts", "[]") == []


@pytest.mark.parametrize(
    ("octets", "shown"),
    [
        ("005377a10370 6179", [["amqp-value", "pay"]]),
        ("005377c10c04a10161 5405a10162a10163", [["amqp-value", '{\n  "a": 5,\n  "b": "c"\n}']]),
        ("005376c0050341 4240", [["amqp-sequence", "[\n  true,\n  false,\n  null\n]"]]),
        ("005377 80ffffffffffffffff", [["amqp-value", "18446744073709551615"]]),
        ("005377f0000000090000000271 0000000500000006", [["amqp-value", "[\n  5,\n  6\n]"]]),
        ("005375a00170", [["data", "0x70"]]),
        ("005377a1ff70", None),
        ("005377d0ffffffffffffffff", None),
        ("0053", None),
        ("686921", None),
    ],
)
def test_sections_of_amqp_are_values_for_people(page: Page, octets: str, shown: list[list[str]] | None) -> None:
    script = """async (octets) => (await import("/static/amqp.js")).sections(new Uint8Array(octets))"""
    assert page.evaluate(script, list(bytes.fromhex(octets))) == shown


def test_section_that_nests_without_end_is_no_text(page: Page) -> None:
    script = """async () => (await import("/static/amqp.js")).sections(
        new Uint8Array([0, 0x53, 0x77, ...Array(300000).fill([0xc0, 0xff, 1]).flat()]))"""
    assert page.evaluate(script) is None


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("", {}),
        ("c-412 again", {"body": "c-412 again"}),
        ('key:order.* header:trace=abc header:"a=b c"', {"key": "order.*", "header": ["trace=abc", "a=b c"]}),
        ("reason:expired where: total > 5 AND key:x", {"reason": "expired", "filter": "total > 5 AND key:x"}),
        ("http://host/a", {"body": "http://host/a"}),
        ("key:", "key: needs a value, such as key:abc."),
        ("key:a key:b", "key: is there twice."),
        ("x body:y", '“x” has no name, and body: is there already. Quote the text: body:"…".'),
    ],
)
def test_words_of_the_filter_line_are_fields(page: Page, line: str, fields: object) -> None:
    assert call(page, "pages/queue/choice.js", "read", line) == fields


def test_entries_left_out_of_a_file_are_a_file(page: Page) -> None:
    entry = {"vhost": "/", "name": "a", "arguments": {"n": 9007199254740993}}
    text = json.dumps({"rabbit_version": "3.13.1", "queues": [entry, {**entry, "name": "b"}], "users": []})
    outcome = {"kind": "queues", "line": 1, "name": "a", "vhost": "/", "subject": "queue 'a' in vhost '/'"}
    kept = call(page, "pages/definitions/file.js", "only", text, [outcome])
    assert json.loads(kept) == {"rabbit_version": "3.13.1", "queues": [entry]}
