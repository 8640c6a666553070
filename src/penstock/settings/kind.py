"""Kinds of named values: the allowed values, their reading and display, and the sentence that refuses a value.

Settings, settings files, options of the client and of Spark, words of commands and fields of control requests are read
by these kinds, so a time, a size or a flag is written in the same way everywhere. `Kind.read` reads texts as well as
values (URLs, the environment, words, arguments of AMQP). `Kind.read_typed` reads sources with types of their own (JSON,
TOML): numbers and flags have their types there, and a text counts as a number only with a unit.

The client imports this module with its first connection, so modules that only units and refusals need are imported when
used.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.markers import override
from penstock.settings.lengths import NAME_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

NUMBER_MOST: Final = (1 << 62) - 1
"""Largest number: 64-bit arithmetic of sums could overflow above it."""
MILLISECONDS_MOST: Final = 1 << 53
"""Longest duration, 285,000 years: above it, a float and JSON's readers cannot tell whole milliseconds apart."""
NAMED_MOST: Final = 1 << 42
"""A largest value above this one is named only in the refusal of a larger value."""
NUMBER_LETTERS: Final = 64
"""Longest number in a text: int() takes long to refuse thousands of digits."""
LISTED_MOST: Final = 60
"""Most known names in the refusal of an unknown one."""
FLAGS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
"""Texts of a flag, in lower case."""
TEXTS: Final = (str, bytes)
NUMBERS: Final = (int, float)
NOUNS: Final = {"bytes": "bytes", "s": "seconds", "ms": "milliseconds"}
EXAMPLES: Final = {
    "bytes": (("64MiB", 1 << 26), ("4MB", 4_000_000), ("64KiB", 1 << 16), ("1KiB", 1 << 10)),
    "ms": (("30min", 1_800_000), ("30s", 30_000), ("500ms", 500), ("1ms", 1)),
    "s": (("30s", 30), ("30min", 1800), ("500ms", 0.5), ("1ms", 0.001)),
}
"""Amounts with a unit, of which a refusal shows the first that is allowed."""


class _Sentinel:
    """Value that no source has."""


REQUIRED: Final = _Sentinel()
"""Default of a value that must be given."""
INVALID: Final = _Sentinel()
"""Result of `Kind.parse` for a value that is not allowed."""
NO_NONE: Final = _Sentinel()
"""Of a number without a value for `none`."""


NO_UNIT: Final = "no unit"
"""Unit of a bare number that is not allowed."""


class InvalidValue(ValueError):
    """Refusal of a named value, in one sentence."""

    def __init__(self, text: str, name: str = "") -> None:
        super().__init__(text)
        self.name = name
        """Name as it was given; empty for a missing value."""


class Kind:
    """Kind of a value; this base class allows every value."""

    noun: str = "anything"

    def __init__(self, *, values: str = "", secret: bool = False) -> None:
        self.values = values
        """Values that may be written, for the documentation."""
        self.secret = secret
        """True if no refusal may show the value."""

    def parse(self, value: object, typed: bool = False) -> Any:
        """Return the stored form of a value, INVALID if it is not allowed. `typed`: the source has its own types."""
        return value

    def rule(self, value: object = None) -> str:
        """Return the rule that a value violates: the words after "must be"."""
        return self.noun

    def advice(self, value: object) -> str:
        """Return a further clause for the refusal of a value; empty for most."""
        return ""

    def read(self, name: str, value: object) -> Any:
        """Return the stored form of a value or a text. Raises InvalidValue."""
        found = self.parse(value)
        if found is INVALID:
            raise InvalidValue(self.fault(name, value), name)
        return found

    def read_typed(self, name: str, value: object) -> Any:
        """Return the stored form of a value of JSON or TOML. Raises InvalidValue."""
        found = self.parse(value, True)
        if found is INVALID:
            raise InvalidValue(self.fault(name, value), name)
        return found

    def fault(self, name: str, value: object, secret: bool = False) -> str:
        """Return the sentence that refuses a value: its name, the rule, and the value (of a secret value the type)."""
        from penstock.texts import joined, worded

        given = type_word(value) if (secret or self.secret) and value != "" else worded(value)
        advice = self.advice(value)
        text = f"{name} must be {self.rule(value)}, not {given}"
        return joined(text, advice) if advice else text

    def shown(self, value: object) -> object:
        """Return a stored value in its written form."""
        return value


RULES_OF_NUMBER: Final = (
    *("unit", "least", "most", "whole", "above", "noun", "special", "none", "zero", "also", "units", "values"),
)


class Number(Kind):
    """Number with bounds, and with a unit if it is a size or a duration; stored in the unit of a bare number."""

    def __init__(
        self,
        unit: str = "",
        least: float = 0,
        most: float = NUMBER_MOST,
        *,
        whole: bool = True,
        above: bool = False,
        bare: str = "",
        noun: str = "",
        special: Mapping[Any, Any] | None = None,
        none: Any = NO_NONE,
        zero: str = "",
        also: str = "",
        units: Mapping[str, int] | None = None,
        values: str = "",
    ) -> None:
        super().__init__(values=values)
        self.noun = noun
        """Word for the number in the rule; empty for that of its unit."""
        self.unit = unit
        """`bytes`, `s`, `ms`, or empty: the stored unit."""
        self.least = least
        self.most = most
        self.whole = whole
        self.above = above
        """True if the value must be above `least`."""
        self.bare = bare or unit
        """Unit of a number without one; NO_UNIT if a duration must have one."""
        self.special = special or {}
        """Numbers outside of the bounds with a meaning, and what is stored for each."""
        self.none = none
        """Stored value of the text `none`; NO_NONE if that text is refused."""
        self.zero = zero
        """Clause that says why 0 is refused."""
        self.also = also
        """Clause that says what else may be written."""
        self.units = units
        """Units by other names than in penstock.texts; None for those."""
        self.is_plain = whole and not above and not self.special and self.bare == unit
        """True if a whole number within the bounds is stored as it is."""

    def but(self, **changes: Any) -> Number:
        """Return a kind with some other rules."""
        rules = {name: getattr(self, name) for name in RULES_OF_NUMBER}
        if self.bare != self.unit:
            rules["bare"] = self.bare
        return Number(**rules | changes)

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        if type(value) is int and self.least <= value <= self.most and self.is_plain:
            return value
        if isinstance(value, TEXTS):
            text = _text(value).strip().lower()
            if text == "none" and self.none is not NO_NONE:
                return self.none
            number: Any = self._amount(text, typed)
        elif isinstance(value, bool) or not isinstance(value, NUMBERS):
            return INVALID
        else:
            number = self._scaled(value)
        if number is None:
            return INVALID
        if self.special and number in self.special:
            return self.special[number]
        return self._bounded(number)

    def _bounded(self, number: Any) -> Any:
        if not self.least <= number <= self.most or (self.above and number == self.least):  # NaN is not within.
            return INVALID
        if not self.whole:
            return float(number)
        return int(number) if number == int(number) else INVALID

    def _scaled(self, number: float) -> float | None:
        """Return a bare number in the stored unit; specials, which have no unit, as they are."""
        if self.bare == self.unit or number <= 0:
            return number
        if self.bare == NO_UNIT:
            return None
        if number > MILLISECONDS_MOST:
            return number  # The number exceeds every bound, in each unit.
        return number / 1000 if self.bare == "ms" else number * 1000

    def _amount(self, text: str, typed: bool) -> Any:
        """Return the number of a text in the stored unit; None for another text, or if `typed` without a unit."""
        if len(text) > NUMBER_LETTERS:
            return None
        number = _bare(text)
        if number is not None:
            return None if typed or number != number else self._scaled(number)
        if not self.unit:
            return None
        from penstock.texts import BYTES, TIMES, amount

        units = self.units or (BYTES if self.unit == "bytes" else TIMES)
        found = amount(text, units)
        if found is None:
            return None
        exact = found / 1000 if self.unit == "s" else found
        return exact if self.whole else float(exact)  # 1/10 is less than the float of 0.1.

    @override
    def rule(self, value: object = None) -> str:
        noun = self.noun or NOUNS.get(self.unit) or ("a whole number" if self.whole else "a number")
        if self.bare == NO_UNIT:
            noun = "a time with a unit,"
        elif self.bare != self.unit:
            noun = NOUNS[self.bare]
        return f"{noun}{self._range(value)}{self._example()}{self._others()}"

    def _range(self, value: object) -> str:
        is_named = self.most < NAMED_MOST or self._exceeds(value)
        high = f" to {self._in_words(self.most)}" if is_named else ""
        if self.least <= -NAMED_MOST and not is_named:
            return ""
        return f" {'above' if self.above else 'from'} {self._in_words(self.least)}{high}"

    def _in_words(self, number: float) -> str:
        """Return a bound in the unit of bare numbers."""
        if self.bare == NO_UNIT:
            from penstock.texts import shown_time

            return shown_time(number * 1000 if self.unit == "s" else number) if number else "0"
        if self.bare != self.unit:
            number = number * 1000 if self.bare == "ms" else number / 1000
        return str(number) if isinstance(number, int) else f"{number:.15g}"

    def _exceeds(self, value: object) -> bool:
        if isinstance(value, TEXTS):
            number = self._amount(_text(value).strip().lower(), False)
            return number is not None and bool(number > self.most)
        return isinstance(value, NUMBERS) and value > self.most

    def _example(self) -> str:
        for text, number in EXAMPLES.get(self.unit, ()):
            if self.least <= number <= self.most:
                return f" (such as {text})"
        return ""

    def _others(self) -> str:
        words = [f"{number:g}" for number in self.special] + ([] if self.none is NO_NONE else ["none"])
        text = f", or {' or '.join(words)}" if words else ""
        return f"{text}, or {self.also}" if self.also else text

    @override
    def advice(self, value: object) -> str:
        if self.zero and (value == 0 or (isinstance(value, TEXTS) and _bare(_text(value).strip()) == 0)):
            return f"0 {self.zero}"
        if self.bare != NO_UNIT:
            return ""
        text = str(value).strip()
        units = ("s", "ms") if text.isdecimal() else ()
        fits = [f"{text}{unit}" for unit in units if self.parse(f"{text}{unit}") is not INVALID]
        return f"write {' or '.join(fits)}" if fits else ""

    def shown(self, value: object) -> object:
        """Return a stored number as it is written; None for no limit."""
        if isinstance(value, bool) or not isinstance(value, NUMBERS):
            return value
        if value == self.none:
            return None
        return int(value) if float(value).is_integer() else value


AGE_UNITS: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
"""Seconds of the units of an age, which RabbitMQ writes with one letter: M is a month, m a minute."""
AGE_DIGITS: Final = 12
"""Most digits of an age."""


class Age(Number):
    """Age of RabbitMQ: a whole number and a unit of one letter (7D, 1h), stored in milliseconds; or a duration."""

    def __init__(self, none: Any, values: str) -> None:
        super().__init__("ms", 1, MILLISECONDS_MOST, none=none, bare=NO_UNIT, values=values)

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        seconds = age_s(value)
        if seconds is None:
            return super().parse(value, typed)
        return seconds * 1000 if 0 < seconds * 1000 <= self.most else INVALID

    @override
    def rule(self, value: object = None) -> str:
        return "an age: a number and Y, M, D, h, m or s (such as 7D)"

    @override
    def advice(self, value: object) -> str:
        return ""


def age_s(value: object) -> int | None:
    """Return the seconds of an age by RabbitMQ's units; None for any other value."""
    text = _text(value).strip() if isinstance(value, TEXTS) else ""
    unit = AGE_UNITS.get(text[-1:], 0)
    digits = text[:-1]
    return int(digits) * unit if unit and len(digits) <= AGE_DIGITS and digits.isascii() and digits.isdigit() else None


class Flag(Kind):
    """True or false."""

    noun = "true or false"

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        if isinstance(value, bool):
            return value
        if typed:
            return INVALID
        if isinstance(value, TEXTS):
            return FLAGS.get(_text(value).strip().lower(), INVALID)
        return value == 1 if isinstance(value, int) and value in (0, 1) else INVALID


class Choices(Kind):
    """One of several words; synonyms are stored as their word. Case counts only in programs and typed sources."""

    def __init__(
        self, words: Sequence[str] | Mapping[str, str], *, folded: bool = True, article: str = "", values: str = ""
    ) -> None:
        super().__init__(values=values)
        self.words: dict[str, str] = words if isinstance(words, dict) else {word: word for word in words}
        """Allowed words, with the stored word of each."""
        self.folded = folded
        """True if case does not count."""
        self.article = article
        """Noun for the words ("an overflow policy"); empty for none."""
        self._by_text = {word.lower(): stored for word, stored in self.words.items()} if folded else self.words

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        if not isinstance(value, TEXTS):
            return INVALID
        text = _text(value).strip()
        return self._by_text.get(text.lower() if self.folded else text, INVALID)

    @override
    def rule(self, value: object = None) -> str:
        words = [*dict.fromkeys(self.words.values())]
        listed = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
        return f"{self.article}: {listed}" if self.article else listed

    @override
    def advice(self, value: object) -> str:
        from penstock.texts import nearest

        near = nearest(_text(value).strip().lower(), self.words) if isinstance(value, TEXTS) else ""
        return f"did you mean {near}?" if near else ""


class Text(Kind):
    """String without lone surrogates, with bounds of its bytes."""

    def __init__(self, least: int = 0, most: int = 0, *, values: str = "", secret: bool = False) -> None:
        super().__init__(values=values, secret=secret)
        self.least = least
        self.most = most
        """Most bytes of UTF-8; 0 for no bound."""

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        if not isinstance(value, str):
            return INVALID
        if self.least == 0 == self.most and value.isascii():
            return value
        octets = _octets(value)
        return value if self.least <= octets and (not self.most or octets <= self.most) else INVALID

    @override
    def rule(self, value: object = None) -> str:
        if isinstance(value, str) and _octets(value) < 0:
            return "a string without halves of characters (lone surrogates)"
        if self.most:
            return f"a string of {self.least} to {self.most} bytes"
        return "a string that is not empty" if self.least else "a string"


class Strings(Kind):
    """List of strings; a single string is a list of one if `single`."""

    def __init__(
        self,
        least: int = 0,
        *,
        single: bool = False,
        distinct: bool = False,
        choices: Sequence[str] = (),
        item: Text | None = None,
    ) -> None:
        super().__init__()
        self.least = least
        self.item = item or Text()
        """Kind of each string."""
        self.single = single
        self.distinct = distinct
        """True if no string may be there twice."""
        self.choices = tuple(choices)
        """Allowed strings; empty for all."""

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        items = [value] if self.single and isinstance(value, str) else value
        if not isinstance(items, list) or len(items) < self.least:
            return INVALID
        for item in items:
            if self.item.parse(item) is INVALID:
                return INVALID
            if self.choices and item not in self.choices:
                return INVALID
        return INVALID if self.distinct and len(set(items)) != len(items) else items

    @override
    def rule(self, value: object = None) -> str:
        noun = "at least one string" if self.least else "strings"
        if self.distinct and self._has_twice(value):
            noun = "different strings"
        elif self.item.least:
            noun = "strings that are not empty"
        listed = f"{'a string or ' if self.single else ''}a list of {noun}"
        return f"{listed} among {', '.join(self.choices)}" if self.choices else listed

    def _has_twice(self, value: object) -> bool:
        strings = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return isinstance(value, list) and strings and len(value) >= self.least and len(set(value)) != len(value)

    @override
    def advice(self, value: object) -> str:
        from penstock.texts import nearest

        items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        for item in items:
            if self.choices and isinstance(item, str) and item not in self.choices:
                near = nearest(item, self.choices)
                return f"did you mean {near}?" if near else ""
        return ""


class Table(Kind):
    """Object of names and values; an empty list counts as {}, because RabbitMQ's tools write []."""

    noun = "an object"

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        if isinstance(value, dict):
            return value
        return {} if value == [] else INVALID


class Entries(Kind):
    """List of any items."""

    noun = "a list"

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        return value if isinstance(value, list) else INVALID


class Parsed(Kind):
    """Value that a function parses from a text; its ValueError has the end of the sentence: "must be ..."."""

    def __init__(
        self, function: Callable[[str], Any], *, secret: bool = False, masked: Callable[[str], str] = str
    ) -> None:
        super().__init__(secret=secret)
        self.function = function
        self.masked = masked
        """Function that returns a text without the passwords in it."""

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        try:
            return self.function(str(value).strip())
        except ValueError:
            return INVALID

    @override
    def fault(self, name: str, value: object, secret: bool = False) -> str:
        from penstock.texts import worded

        shown = "" if secret or self.secret else f" = {worded(self.masked(str(value)))}"
        try:
            self.function(str(value).strip())
        except ValueError as error:
            return f"{name}{shown} {error}"
        return super().fault(name, value, secret)


ANYTHING: Final = Kind()
FLAG: Final = Flag()
TEXT: Final = Text()
OBJECT: Final = Table()
LIST: Final = Entries()
COUNT: Final = Number()
"""Whole number from 0."""
INTEGER: Final = Number(least=-NUMBER_MOST)
MILLISECONDS: Final = Number("ms", most=MILLISECONDS_MOST)
SECONDS: Final = Number("s", most=MILLISECONDS_MOST / 1000, whole=False)
REAL: Final = Number(least=-NUMBER_MOST, whole=False)
BYTES: Final = Number("bytes")
NAME: Final = Text(0, NAME_MAX)
"""Name, or routing key, which may be empty."""
NAMES: Final = Strings(1, distinct=True)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _octets(text: str) -> int:
    """Return the number of bytes in UTF-8; -1 for a text with lone surrogates."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return -1


def _bare(text: str) -> float | None:
    """Return the number of a text without a unit; None for another text."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def type_word(value: object) -> str:
    """Return the type of a value, for refusals of values that may contain a password."""
    for kind, word in ((bool, "a boolean"), (str, "this string"), (list, "a list"), (dict, "a table")):
        if isinstance(value, kind):
            return word
    return "null" if value is None else "a number" if isinstance(value, NUMBERS) else "a date"


def whole(least: int = 0, most: int = NUMBER_MOST) -> Number:
    """Return the kind of a whole number."""
    return Number("", least, most)


def bytes_from(least: int = 0, most: int = NUMBER_MOST) -> Number:
    """Return the kind of a number of bytes."""
    return Number("bytes", least, most)


def seconds_from(least: float = 0, most: float = MILLISECONDS_MOST / 1000) -> Number:
    """Return the kind of a time in seconds."""
    return Number("s", least, most, whole=False)


# Sets of named values


def unknown_name(
    owner: str,
    noun: str,
    name: str,
    known: Iterable[str],
    listed: Iterable[str] | None = None,
    fold: Callable[[str], str] = str,
) -> str:
    """Return the sentence about an unknown name, with the nearest of the known names, or all `listed` names (None: the
    known names; empty: no list). `fold` returns the significant part of a name.
    """
    from penstock.texts import nearest, worded

    names = {fold(each): each for each in known}
    near = names.get(nearest(fold(name[:NAME_MAX]), names))
    shown = [*(names.values() if listed is None else listed)]
    more = ", ..." if len(shown) > LISTED_MOST else ""
    text = f"{owner} has no {noun} {worded(name)}"
    if near:
        return f"{text}; did you mean {near}?"
    return text if names and not shown else f"{text}; known are {', '.join(shown[:LISTED_MOST]) or 'none'}{more}"


def contradiction(one: str, one_value: object, other: str, other_value: object, own: str) -> str:
    """Return the sentence about two names of one value that are given different values."""
    from penstock.texts import worded

    first, second = f"{one}={worded(one_value, False)}", f"{other}={worded(other_value, False)}"
    return f"{first} contradicts {second}; both set {own}"


class Named:
    """One value of a set: its name, its kind, its default, and its other names."""

    __slots__ = ("name", "kind", "default", "aliases", "meaning")

    def __init__(
        self, name: str, kind: Kind, default: Any = REQUIRED, aliases: tuple[str, ...] = (), meaning: str = ""
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.aliases = aliases
        self.meaning = meaning
        """Words for the value, in the refusal of a set without it."""


class NamedValues:
    """Set of named values: finds each value by any of its names, and reads given values."""

    def __init__(self, noun: str, rows: Iterable[Any], fold: Callable[[str], str] = str, label: str = "{}") -> None:
        """`noun`: the word for one value; `rows` are like `Named`; `fold` returns the significant part of a name;
        `label`: the form in which a refusal names a value, with its name and its owner.
        """
        self.noun = noun
        self.label = label
        self.rows: dict[str, Any] = {row.name: row for row in rows}
        self._fold = fold
        self._names = {fold(name): row for row in self.rows.values() for name in (row.name, *row.aliases)}

    def find(self, owner: str, name: str) -> Any:
        """Return the row of a name. Raises InvalidValue, with the nearest name."""
        row = self._names.get(self._fold(name))
        if row is None:
            known = [each for row in self.rows.values() for each in (row.name, *row.aliases)]
            raise InvalidValue(unknown_name(owner, self.noun, name, known, self.rows, self._fold), name)
        return row

    def read(self, owner: str, given: Mapping[str, object], typed: bool = False) -> dict[str, Any]:
        """Return all values by their own names: given values, and defaults. Raises InvalidValue for an unknown name, an
        invalid or a missing value, and two names with different values.
        """
        found: dict[str, Any] = {}
        spelt: dict[str, str] = {}
        for name, value in given.items():
            row = self.find(owner, name)
            read = row.kind.parse(value, typed)
            if read is INVALID:
                raise InvalidValue(row.kind.fault(self.label.format(name, owner), value), name)
            if row.name in found and found[row.name] != read:
                other = spelt[row.name]
                raise InvalidValue(contradiction(name, value, other, given[other], row.name), name)
            found[row.name], spelt[row.name] = read, name
        for row in self.rows.values():
            if row.name not in found:
                if row.default is REQUIRED:
                    meaning = getattr(row, "meaning", "")
                    raise InvalidValue(f"{owner} needs the {self.noun} {row.name}{meaning and ': '}{meaning}")
                found[row.name] = row.default
        return found
