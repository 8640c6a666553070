"""XML of a configuration as a tree with line numbers; entities are refused, and nothing else is read for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.parsers import expat

from penstock.cli.conversions.conversion import check_size, plain
from penstock.errors import ConfigError

DEPTH_MOST: Final = 64
"""Most elements inside each other; configurations have ten at most."""
INCLUDE: Final = "http://www.w3.org/2001/XInclude"
SCHEMA: Final = "http://www.w3.org/2001/XMLSchema-instance"
"""Namespace of attributes that name a schema; they are not part of a configuration."""


class Element:
    """One element with its attributes, text and children; names are without their namespace."""

    def __init__(self, name: str, attributes: dict[str, str], line: int) -> None:
        namespace, _, self.name = name.rpartition(" ")
        self.attributes = {
            key.rpartition(" ")[2]: value for key, value in attributes.items() if not key.startswith(SCHEMA)
        }
        self.line = line
        self.is_include = namespace == INCLUDE
        """True for XInclude's `include`, which is not followed."""
        self.children: list[Element] = []
        self.pieces: list[str] = []

    def walk(self) -> Iterator[Element]:
        """Yield it and all below, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def text(self) -> str:
        """Its own text, without surrounding spaces."""
        return "".join(self.pieces).strip()

    def child(self, name: str) -> Element | None:
        """Return the first child of a name."""
        return next((child for child in self.children if child.name == name), None)


class _Builder:
    """Handlers of the parser."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.EntityDeclHandler = self.entity
        self.root: Element | None = None
        self._open: list[Element] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        if len(self._open) >= DEPTH_MOST:
            raise ConfigError(f"line {line}: elements are inside each other more than {DEPTH_MOST} deep")
        element = Element(name, attributes, line)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, name: str) -> None:
        element = self._open.pop()
        if element.children and element.text:
            raise ConfigError(
                f"line {element.line}: <{element.name}> has text beside its elements: '{element.text[:40]}'"
            )

    def characters(self, text: str) -> None:
        self._open[-1].pieces.append(text)

    def entity(self, name: str, *_: object) -> None:
        line = self.parser.CurrentLineNumber
        raise ConfigError(f"line {line}: the file declares the entity '{name}'; entities are not read")


def read_xml(data: bytes) -> Element:
    """Return the root element. Raises ConfigError with the line for XML that is malformed or declares entities."""
    check_size(data)
    builder = _Builder()
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ConfigError(f"line {error.lineno}: the XML is malformed: {expat.ErrorString(error.code)}") from None
    assert builder.root is not None
    return builder.root


def by_name(elements: list[Element], repeated: tuple[str, ...] = ()) -> dict[str, Element]:
    """Return elements by their names. Raises ConfigError for one that is there twice, unless it is in `repeated`."""
    found: dict[str, Element] = {}
    for element in elements:
        if element.name in found and element.name not in repeated:
            raise ConfigError(
                f"line {element.line}: <{element.name}> is there twice; the first is in line {found[element.name].line}"
            )
        found[element.name] = element
    return found


def number_of(element: Element) -> int:
    """Return the text of an element as a whole number. Raises ConfigError for another one."""
    number = plain(element.text)
    if not isinstance(number, int):
        raise ConfigError(f"line {element.line}: {element.name} '{element.text}' must be a whole number")
    return number
