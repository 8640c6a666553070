"""Result of a conversion: definitions with their lines in the source, and the parts that are not converted, with the
reason.

XML of a configuration is a tree with line numbers; entities are refused, and no other file is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from xml.parsers import expat

from penstock.errors import ConfigError
from penstock.texts import nearest

OCTETS_MOST: Final = 4 * 1024 * 1024
"""Most bytes of a converted file: the bound of an import of definitions."""
NEARLY: Final = 0.85
"""Similarity (difflib) from which an unknown name counts as a misspelling of a converted name."""
LINE: Final = re.compile(r"line (\d+)\b")


@dataclass(frozen=True)
class Remark:
    """One part of the source that is not converted, or has another meaning in Penstock."""

    line: int
    subject: str
    """Element, attribute or option."""
    reason: str
    left: bool = True
    """False if the part is converted with a different meaning."""


class Conversion:
    """Definitions that are being collected, entry by entry."""

    def __init__(self) -> None:
        self.remarks: list[Remark] = []
        self.entries: dict[str, list[dict[str, object]]] = {}
        """Entries by section of a definitions file."""
        self._lines: dict[str, list[int]] = {}
        """Lines of the entries in the source."""
        self._known: set[tuple[str, str]] = set()
        """Sections and texts of the entries."""
        self._settings: dict[tuple[str, str], dict[str, object]] = {}
        """Settings by scope and pattern."""

    def add(self, line: int, section: str, entry: dict[str, object]) -> None:
        """Add an entry; an equal entry is added once."""
        key = (section, json.dumps(entry))
        if key not in self._known:
            self._known.add(key)
            self.entries.setdefault(section, []).append(entry)
            self._lines.setdefault(section, []).append(line)

    def set(self, line: int, scope: str, pattern: str, settings: dict[str, object]) -> None:
        """Add settings by pattern, to earlier settings of the same pattern."""
        known = self._settings.get((scope, pattern))
        if known is not None:
            known.update(settings)
        elif settings:
            known = self._settings[scope, pattern] = dict(settings)
            self.add(line, "settings", {"scope": scope, "pattern": pattern, "settings": known})

    def remark(self, line: int, subject: str, reason: str, left: bool = True) -> None:
        """Add a remark."""
        self.remarks.append(Remark(line, subject, reason, left))

    def complete(self, answer: dict[str, Any]) -> None:
        """Put lines of the source into the answer to an import of `text`, and add the remarks."""
        for difference in (*answer.get("differences", []), *answer.get("skipped", [])):
            difference["line"] = self.source_line(difference["line"])
        answer["remarks"] = [asdict(remark) for remark in sorted(self.remarks, key=lambda remark: remark.line)]

    def text(self) -> str:
        """Return the definitions as the text of a file, with one entry a line."""
        sections = [
            f" {json.dumps(name)}: [\n  " + ",\n  ".join(json.dumps(entry) for entry in entries) + "\n ]"
            for name, entries in self.entries.items()
        ]
        return "{\n" + ",\n".join(sections) + "\n}\n"

    def source_line(self, line: int) -> int:
        """Return the line of the source for a line of `text`; 0 for a line without an entry."""
        first = 3
        for lines in self._lines.values():
            if first <= line < first + len(lines):
                return lines[line - first]
            first += len(lines) + 2
        return 0

    def relocated(self, sentence: str) -> str:
        """Return a sentence about a line of `text` with the line of the source instead."""
        return LINE.sub(lambda found: f"line {self.source_line(int(found[1])) or found[1]}", sentence, count=1)


def check_size(data: bytes) -> None:
    """Raise ConfigError for a file that is too large for a conversion."""
    if len(data) > OCTETS_MOST:
        raise ConfigError(f"the file has {len(data):,} bytes; at most {OCTETS_MOST:,} are converted")


def check_spelling(line: int, name: str, known: Iterable[str]) -> None:
    """Raise ConfigError for a name that nearly equals a known name: its meaning must not be lost."""
    near = nearest(name, known, cutoff=NEARLY)
    if near and near != name:
        raise ConfigError(f"line {line}: '{name}' is not known; did you mean {near}?")


def reasons(names: Mapping[str, str]) -> dict[str, str]:
    """Return the reason of each name, from names with spaces between them by their common reason."""
    return {name: reason for reason, these in names.items() for name in these.split()}


def plain(text: str) -> object:
    """Return a whole number for its decimal text, else the text."""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


DEPTH_MOST: Final = 64
"""Most elements inside each other; configurations have ten at most."""
INCLUDE: Final = "http://www.w3.org/2001/XInclude"
SCHEMA: Final = "http://www.w3.org/2001/XMLSchema-instance"
"""Namespace of attributes that name a schema, which are not part of a configuration."""


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
        """Yield the element and its descendants, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def text(self) -> str:
        """Text of the element itself, without surrounding spaces."""
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
        self.parser.SkippedEntityHandler = self.skipped
        self.parser.StartDoctypeDeclHandler = self.doctype
        self.parser.SetParamEntityParsing(
            expat.XML_PARAM_ENTITY_PARSING_ALWAYS
        )  # Otherwise references to them are skipped.
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

    def skipped(self, name: str, is_parameter: bool) -> None:
        line = self.parser.CurrentLineNumber
        raise ConfigError(f"line {line}: the file uses the entity '{name}', which it does not declare")

    def doctype(self, name: str, system: str | None, public: str | None, has_subset: bool) -> None:
        if system is not None or public is not None:  # A declaration there would be skipped in attributes.
            line, where = self.parser.CurrentLineNumber, system or public
            raise ConfigError(
                f"line {line}: the file refers to the DTD '{where}', which is not read; remove its DOCTYPE"
            )


def read_xml(data: bytes) -> Element:
    """Return the root element. Raises ConfigError with the line for malformed XML, or entities and DTDs."""
    check_size(data)
    builder = _Builder()
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ConfigError(f"line {error.lineno}: the XML is malformed: {expat.ErrorString(error.code)}") from None
    assert builder.root is not None
    return builder.root


def by_name(elements: list[Element], repeated: tuple[str, ...] = ()) -> dict[str, Element]:
    """Return elements by their names. Raises ConfigError for a repeated element, unless it is in `repeated`."""
    found: dict[str, Element] = {}
    for element in elements:
        if element.name in found and element.name not in repeated:
            raise ConfigError(
                f"line {element.line}: <{element.name}> is there twice; the first is in line {found[element.name].line}"
            )
        found[element.name] = element
    return found


def number_of(element: Element) -> int:
    """Return the text of an element as a whole number. Raises ConfigError for another text."""
    number = plain(element.text)
    if not isinstance(number, int):
        raise ConfigError(f"line {element.line}: {element.name} '{element.text}' must be a whole number")
    return number
