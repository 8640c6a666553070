"""XML of a configuration: lines, namespaces, and what is refused."""

from __future__ import annotations

import pytest

from penstock.cli.conversions.conversion import OCTETS_MOST, read_xml
from penstock.errors import ConfigError

LAUGHS = b"""<?xml version="1.0"?>
<!DOCTYPE a [
<!ENTITY lol "lol">
<!ENTITY lol2 "&lol;&lol;&lol;">
]>
<a>&lol2;</a>
"""


def test_elements_have_names_without_namespace_their_line_and_text() -> None:
    schema = b'xmlns="urn:x" xmlns:s="http://www.w3.org/2001/XMLSchema-instance" s:b="1"'
    root = read_xml(b"<a %s c='2'>\n\n<f> <!-- d -->e </f></a>" % schema)
    assert (root.name, root.attributes, root.text) == ("a", {"c": "2"}, "")
    assert [(child.name, child.line, child.text) for child in root.children] == [("f", 3, "e")]
    assert [element.name for element in root.walk()] == ["a", "f"]
    assert root.child("f") is root.children[0]
    assert root.child("g") is None


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (LAUGHS, "line 3: the file declares the entity 'lol'; entities are not read"),
        (
            b'<!DOCTYPE a [\n<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
            "line 2: the file declares the entity 'e'; entities are not read",
        ),
        (b"<a>\n<b></a>", "line 2: the XML is malformed: mismatched tag"),
        (b"<a>&e;</a>", "line 1: the XML is malformed: undefined entity"),
        (
            b'<!DOCTYPE a [\n%p;\n]><a b="&e;">&e;</a>',
            "line 2: the file uses the entity 'p', which it does not declare",
        ),
        (
            b'<!DOCTYPE a SYSTEM "a.dtd"><a b="&e;">&e;</a>',
            "line 1: the file refers to the DTD 'a.dtd', which is not read; remove its DOCTYPE",
        ),
        (
            b'\n<!DOCTYPE a PUBLIC "-//A//B" "a.dtd" [ ]>\n<a>&e;</a>',
            "line 2: the file refers to the DTD 'a.dtd', which is not read; remove its DOCTYPE",
        ),
        (b"", "line 1: the XML is malformed: no element found"),
        (b"<a>\n<b>5<c/></b></a>", "line 2: <b> has text beside its elements: '5'"),
        (b"a: b\n", "line 1: the XML is malformed: syntax error"),
        (b"<a>" * 65, "line 1: elements are inside each other more than 64 deep"),
        (b" " * (OCTETS_MOST + 1), "the file has 4,194,305 bytes; at most 4,194,304 are converted"),
    ],
)
def test_refused_xml_names_line_and_rule(data: bytes, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_xml(data)
    assert str(caught.value) == error
