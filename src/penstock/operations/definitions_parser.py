"""Definitions parser: checks keys and types of a definitions file and reports errors with line and key.

The format is RabbitMQ's (the export of its HTTP API, rabbitmqctl and management UI), with an additional section
`settings`. Entries of kinds that are skipped are counted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from penstock.errors import PreconditionFailed
from penstock.management.json_reader import VALUE_OCTETS, JsonError, JsonReader, line_of
from penstock.settings.kind import ANYTHING, FLAG, INTEGER, INVALID, LIST, OBJECT, TEXT, Kind, unknown_name
from penstock.texts import joined, nearest

BYTES_MOST: Final = 4 * 1024 * 1024
ENTRIES_MOST: Final = 20_000
"""Most bytes of imported definitions: all are in memory until the last is made."""
UNKNOWN_MOST: Final = 20
"""Most unknown keys of a file that an import leaves out."""
PARSE_WORK: Final = 500
LOOKED_AT_ONCE: Final = 50
LOOK_WORK: Final = 200
"""Units of work per parsing step, and entries checked per step, with their units."""
NOTHING_IMPORTED: Final = "nothing was imported"

FILE: Final = "a file of definitions"
OWN_HASH: Final = "penstock_password_hash"
"""Key of a user with a hash that RabbitMQ does not know."""


class Section:
    """Kind of definitions: the keys of its entries, by the types of their values; one text may list several keys."""

    def __init__(
        self,
        name: str,
        needed: str = "",
        *,
        texts: str = "",
        flags: str = "",
        objects: str = "",
        numbers: str = "",
        anything: str = "",
        named_by: str = "name",
        component: str = "",
    ) -> None:
        self.name = name
        self.needed = needed.split()
        self.keys: dict[str, Kind] = {}
        for keys, kind in ((texts, TEXT), (flags, FLAG), (objects, OBJECT), (numbers, INTEGER), (anything, ANYTHING)):
            self.keys.update(dict.fromkeys(keys.split(), kind))
        if "vhost" in self.keys:
            self.needed.append("vhost")
        self.named_by = named_by
        """Key that entries are skipped by."""
        self.component = component
        """Component of the parameters that RabbitMQ exports this kind as; empty for a section of its own."""


SECRET: Final[tuple[str, ...]] = ("users", "parameters", "global_parameters")
"""Sections with passwords, which no error shows."""
HEAD: Final[tuple[str, ...]] = (
    "rabbit_version",
    "rabbitmq_version",
    "rabbitmq_definition_format",
    "product_name",
    "product_version",
    "lavinmq_version",
    "original_vhost_name",
    "original_cluster_name",
    "explanation",
    "description",
    "metadata",
    "default_queue_type",
)
"""Keys that describe the file itself. Of a single virtual host they also describe that, which stays as it is."""
UNHOSTED: Final[tuple[str, ...]] = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "global_parameters",
    "settings",
)
"""Sections that an import of one virtual host into another leaves out: they are about all, or about users."""
OF_VHOST: Final = "limits"
"""Key of RabbitMQ 4.3's file of one virtual host: an object with its limits, like a parameter of that kind."""


class Entry:
    """Entry of a file: one definition."""

    __slots__ = ("section", "index", "fields")

    def __init__(self, section: str, index: int, fields: dict[str, object]) -> None:
        self.section = section
        self.index = index
        self.fields = fields

    def text(self, name: str, otherwise: str = "") -> str:
        """Return a string."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else otherwise

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """Return true or false."""
        value = self.fields.get(name)
        return value if isinstance(value, bool) else otherwise

    def table(self, name: str) -> dict[str, object]:
        """Return an object."""
        value = self.fields.get(name)
        return value if isinstance(value, dict) else {}


class InvalidEntry(PreconditionFailed):
    """Error for an entry with an unknown or missing key, or a value of a wrong type."""

    def __init__(self, text: str, path: list[str | int] | None = None, within: list[str | int] | None = None) -> None:
        super().__init__(text)
        self.path: list[str | int] = path or []
        """Position in the file."""
        self.within: list[str | int] = within or []
        """Position of what the text is about: of the entry, if it names the key."""


def refusal(text: str) -> PreconditionFailed:
    """Return the error of an import that changes nothing."""
    return PreconditionFailed(joined(text, NOTHING_IMPORTED))


class ParsedDefinitions:
    """Definitions of a file in their order, and the number of ignored definitions; parsed in steps."""

    def __init__(
        self,
        data: bytes,
        vhost: str | None,
        kinds: Sequence[Section],
        skip: Sequence[str] = (),
        lenient: bool = False,
        moves: bool = False,
        of: str = "",
    ) -> None:
        """Take a file with these kinds; `vhost` is the default virtual host of entries, None if each must name one.

        `skip` has kinds, and KIND:NAME for single entries, such as exchange:delays. With `lenient` invalid entries are
        listed, instead of raised. With `moves` the entries of one virtual host of the file belong to `vhost`: of the
        virtual host `of`, or of the only one. Raises PreconditionFailed (406) for an unknown kind.
        """
        self._kinds: dict[str, Section] = {kind.name: kind for kind in kinds}
        self._sections: dict[str, Section] = {kind.name: kind for kind in kinds if not kind.component}
        self._components: dict[str, str] = {kind.component: kind.name for kind in kinds if kind.component}
        self.entries: dict[str, list[Entry]] = {kind: [] for kind in self._kinds}
        """Entries by kind."""
        self.read_over: dict[str, int] = {}
        """Number of ignored entries by kind."""
        self.named: set[tuple[str, str]] = set()
        """Kind and name of the entries to skip."""
        self.invalid: list[InvalidEntry] = []
        self._lenient = lenient
        self._skip: list[str] = []
        for each in skip:
            self._read_skip(each)
        self._counted_to: tuple[int, int] = (0, 1)
        """Position and line of the last entry whose line was asked for."""
        self.complete: bool = False
        """True if everything is parsed and valid."""
        self._vhost = vhost
        self._moves: bool = moves
        self._of: str = of
        """Virtual host whose entries are moved; empty until the first entry names one."""
        self._chosen: bool = of != ""
        self._other: str = ""
        """Another virtual host of the file, whose entries are left out."""
        self._moved: bool = False
        """True if an entry of that virtual host, or of none, was moved."""
        self._reader = JsonReader(data)
        self._parsed: bool = False
        self._lists: list[tuple[str, list[object]]] = []
        """Sections with entries that are not checked yet."""
        self._next: int = 0

    def read(self) -> i64:
        """Parse the next part; return the units of work spent. Raises PreconditionFailed (406) with line and key."""
        if not self._parsed:
            self._parse()
            return PARSE_WORK
        if not self._lists:
            self.complete = True
            return 1
        section, given = self._lists[0]
        end = min(self._next + LOOKED_AT_ONCE, len(given))
        while self._next < end:
            self._add(section, self._next, given[self._next])
            self._next += 1
        if end == len(given):
            del self._lists[0]
            self._next = 0
        return LOOK_WORK

    def error(self, path: list[str | int], text: str, within: list[str | int] | None = None) -> PreconditionFailed:
        """Return the error for the text at a position of the file; `within` is the named position, if different."""
        where = place_of(path if within is None else within)
        location = f"line {self.line_of(path)}" + (f", {where}" if where else "")
        return refusal(f"{location}: {text}")

    def line(self, entry: Entry) -> int:
        """Return the line of an entry; fast for entries in order."""
        places = self._reader.places.get(entry.section, [])
        return self.line_of([entry.section]) if entry.index >= len(places) else self._line_at(int(places[entry.index]))

    def path(self, entry: Entry) -> list[str | int]:
        """Return the keys of an entry: the name of an entry that is itself a member."""
        return [entry.section, entry.index] if entry.section in self._reader.places else [entry.section]

    def _line_at(self, place: int) -> int:
        at, line = self._counted_to
        if place < at:
            at, line = 0, 1
        line += self._reader.data.count(b"\n", at, place)
        self._counted_to = (place, line)
        return line

    def _add(self, section: str, index: int, fields: object) -> None:
        """Check an entry, and add the entry to its kind."""
        kind = section
        if section == "parameters" and isinstance(fields, dict):
            kind = self._components.get(str(fields.get("component")), section)
        if kind in self._skip:
            self.read_over[kind] = self.read_over.get(kind, 0) + 1
            return
        if self._moves and isinstance(fields, dict) and not self._move(kind, index, fields):
            self.read_over[kind] = self.read_over.get(kind, 0) + 1
            return
        try:
            self.entries[kind].append(_entry(self._sections[section], index, fields, self._vhost))
        except InvalidEntry as error:
            if not self._lenient:
                raise self.error(error.path, str(error), error.within) from None
            self.invalid.append(error)

    def _move(self, kind: str, index: int, fields: dict[str, object]) -> bool:
        """Make an entry belong to the virtual host of the import; return whether the entry is one to move.

        Raises PreconditionFailed (406) for an entry of a second virtual host, if none was chosen.
        """
        if kind in UNHOSTED:
            return False
        given = fields.get("vhost")
        if isinstance(given, str):
            if not self._of:
                self._of = given
            if given != self._of:
                if not self._chosen:
                    text = f"the file has entries of vhost '{self._of}' and of vhost '{given}'; choose one to import"
                    section = "parameters" if kind not in self._sections else kind
                    raise self.error([section, index, "vhost"], text, [section, index])
                self._other = given
                return False
            fields["vhost"] = self._vhost
        self._moved = True
        return True

    def _read_skip(self, word: str) -> None:
        """Read a kind, or KIND:NAME, to skip. Raises PreconditionFailed (406)."""
        kind, colon, name = word.partition(":")
        if not colon:
            if kind not in self._kinds:
                raise PreconditionFailed(unknown_name(FILE, "kind", kind, self._kinds))
            self._skip.append(kind)
            return
        kinds = {one_of(each): each for each in self._kinds if each != "bindings"}
        matched = kinds.get(one_of(kind))
        if matched is None:
            raise PreconditionFailed(unknown_name(FILE, "kind", kind, kinds))
        self.named.add((matched, name))

    def check_skipped(self) -> None:
        """Raise PreconditionFailed (406) for an entry to skip, or a virtual host to move, that the file lacks."""
        if self._chosen and self._other and not self._moved:
            raise refusal(f"the file has no entry of vhost '{self._of}'; it has entries of vhost '{self._other}'")
        names = {
            kind: {entry.text(self._kinds[kind].named_by) for entry in self.entries[kind]} for kind, _ in self.named
        }
        for kind, name in sorted(self.named):
            if name not in names[kind]:
                near = nearest(name, names[kind])
                hint = f"; did you mean '{near}'?" if near else ""
                raise refusal(f"the file has no {one_of(kind)} '{name}' to skip{hint}")

    def _parse(self) -> None:
        reader = self._reader
        if len(reader.data) > BYTES_MOST:
            size = f"the definitions have {len(reader.data):,} bytes; at once {BYTES_MOST:,} are imported"
            raise refusal(size)
        try:
            self._parsed = reader.step()
        except JsonError as error:
            raise refusal(str(error)) from None
        if not self._parsed:
            return
        if reader.has_halves:
            raise refusal("a string contains a lone surrogate (half a character)")
        count = 0
        for section, entries in reader.found.items():
            count += self._section(section, entries)
        if count > ENTRIES_MOST:
            raise refusal(f"the file defines {count:,} objects; the most in one import is {ENTRIES_MOST:,}")

    def _section(self, section: str, entries: object) -> int:
        """Handle a member of the file; return its number of definitions."""
        if section in HEAD:
            return 0
        if section == OF_VHOST:
            return self._limits_of_vhost(entries)
        if section not in self._sections:
            unknown = InvalidEntry(
                unknown_name(FILE, "key", section, [*self._sections, OF_VHOST, *HEAD]), [section], []
            )
            if not self._lenient:
                raise self.error(unknown.path, str(unknown), unknown.within)
            if len(self.invalid) == UNKNOWN_MOST:
                raise refusal(f"the file has more than {UNKNOWN_MOST} unknown keys; it is no file of definitions")
            self.invalid.append(unknown)
            return 0
        if not isinstance(entries, list):
            raise self.error([section], LIST.fault(section, entries, section in SECRET), [])
        if section in self._skip and section != "parameters":
            self.read_over[section] = len(entries)
            return 0
        self._lists.append((section, entries))
        return len(entries)

    def _limits_of_vhost(self, limits: object) -> int:
        """Read the limits of the only virtual host of a file, which the file may also have as a parameter."""
        fault = ""
        if not isinstance(limits, dict):
            fault = OBJECT.fault(OF_VHOST, limits)
        elif self._vhost is None and limits:
            fault = f"{OF_VHOST} is of one virtual host, and this import is of all; import the file into one"
        if fault:
            raise self.error([OF_VHOST], fault, [])
        if limits and "limits" in self._kinds:
            kind = self._kinds["limits"]
            if kind.name in self._skip:
                self.read_over[kind.name] = self.read_over.get(kind.name, 0) + 1
            else:
                fields = {"component": kind.component, "name": "limits", "value": limits, "vhost": self._vhost}
                self.entries[kind.name].append(Entry(OF_VHOST, 0, fields))
        return 1 if limits else 0

    def line_of(self, path: list[str | int]) -> int:
        """Return the line of a section, an entry, or a key of an entry."""
        reader, section = self._reader, path[0]
        assert isinstance(section, str)
        places = reader.places.get(section, [])
        index = path[1] if len(path) > 1 else -1
        if not isinstance(index, int) or not 0 <= index < len(places):
            return reader.line(reader.starts.get(section, 0))
        place = places[index]
        entry = reader.data[place : place + VALUE_OCTETS].decode(errors="ignore")
        return self._line_at(int(place)) + line_of(entry, path[2:]) - 1


def place_of(path: list[str | int]) -> str:
    """Return a position in a file by its keys, such as queues[0].durable."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_escaped(step)}" for step in path).removeprefix(".")


def one_of(kind: str) -> str:
    """Return the name of one entry of a kind: an exchange, a policy."""
    return (kind[:-3] + "y" if kind.endswith("ies") else kind.removesuffix("s")).replace("_", " ")


def _entry(section: Section, index: int, fields: object, vhost: str | None) -> Entry:
    """Return a checked entry. Raises InvalidEntry."""
    known = section.keys
    place: list[str | int] = [section.name, index]
    is_secret = section.name in SECRET
    if not isinstance(fields, dict):
        raise InvalidEntry(OBJECT.fault(place_of(place), fields, is_secret), place, [])
    for name, value in fields.items():
        kind = known.get(name)
        if kind is None:
            raise InvalidEntry(unknown_name(_owner(section), "key", name, known), [*place, name], place)
        found: object = kind.parse(value, True)
        if found is INVALID:
            raise InvalidEntry(kind.fault(name, value, is_secret), [*place, name], place)
        fields[name] = found
    if "vhost" in known and "vhost" not in fields and vhost is not None:
        fields["vhost"] = vhost
    for name in section.needed:
        if name not in fields:
            raise InvalidEntry(f"{_owner(section)} needs the key {name}", place, place)
    return Entry(section.name, index, fields)


def _owner(section: Section) -> str:
    return f"an entry of {section.name}"


def _escaped(key: str) -> str:
    """Return a key without line feeds and the like."""
    return json.dumps(key, ensure_ascii=False)[1:-1]
