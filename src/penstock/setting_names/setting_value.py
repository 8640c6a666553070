"""One value of a setting: parsing, validation, and translation to the broker's own meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from penstock.errors import NotImplementedHere, PreconditionFailed
from penstock.limits import NAME_MAX
from penstock.setting_names import setting_names
from penstock.setting_names.near import nearest
from penstock.setting_names.units import BYTES, TIMES, amount

NUMBER_MAX: Final = 1 << 62
"""Largest number: above it, 64-bit arithmetic of depths could overflow."""
MILLISECONDS_MAX: Final = 1 << 53
"""Longest duration, 285,000 years: above it, a float and JSON's readers cannot tell whole milliseconds apart."""
NUMBER_LETTERS: Final = 64
"""Longest number in a text: int() refuses thousands of digits, after a long time."""
ARTEMIS_UNITS: Final = {"b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
"""Powers of 1,024 in Artemis (ByteUtil.java), also with a B; only for its own setting names."""
ARTEMIS_SIZES: Final = ("max-size-bytes", "page-limit-bytes", "global-max-size", "default-consumer-window-size")

IN_BYTES: Final = (
    setting_names.BYTES,
    setting_names.MEMORY,
    setting_names.WINDOW,
    setting_names.QUOTA,
    setting_names.FREE,
)
"""Kinds of bytes, besides those whose name says so."""

ARGUMENT: Final = "argument"
POLICY: Final = "policy"
PATTERN: Final = "pattern"
VHOST: Final = "vhost"
BROKER: Final = "broker"
DEFAULT: Final = "default"
"""Sources of a value, the strongest first; only a pattern's override is stronger than all."""


@dataclass(frozen=True)
class SettingValue:
    """A setting's value, by the broker's own name."""

    alias: str
    """The name used."""
    raw: object
    """The value as given, for messages."""
    number: int = 0
    """Whole numbers; -1 is an unbounded window."""
    real: float = 0.0
    """A number that may be a fraction: percentages, seconds, rates, and a share of the host's memory."""
    text: str = ""
    """A policy; "%" for a share of the host's memory."""
    none: bool = False
    """No limit (a resume threshold is the stop then)."""
    origin: str = ARGUMENT
    pattern: str = ""
    """The pattern or the policy that it was set for, if that is its source."""
    by: str = ""
    """"command", "override" or "file", if it was not an argument; "policy" or "operator policy"."""
    place: str = ""
    """Position in the settings file: " line 7"."""
    rank: int = 0
    """The smaller, the stronger: 0 is an argument."""
    override: bool = False
    """True if it was set by command to be stronger than arguments and policies."""

    def with_source(self, origin: str, pattern: str, by: str, rank: int) -> SettingValue:
        """Return a copy with a source and its rank."""
        return replace(self, origin=origin, pattern=pattern, by=by, rank=rank)

    def with_number(self, number: int) -> SettingValue:
        """Return a copy with another number, such as the bytes of a percentage."""
        return replace(self, number=number, real=float(number), text="")

    def overriding(self) -> SettingValue:
        """Return a copy that is stronger than arguments and policies."""
        return replace(self, override=True)

    def at(self, place: str) -> SettingValue:
        """Return a copy with a position in the settings file."""
        return replace(self, place=place)

    def value(self) -> object:
        """Return the part that two names of one setting must agree on."""
        return None if self.none else (self.number, self.real, self.text)

    def describe(self) -> str:
        """Return the value as given, with its source unless that is the declaration."""
        return f"{self.alias}={shown(self.raw)}" + ("" if self.origin == ARGUMENT else f" ({self.source()})")

    def source(self) -> str:
        """Return the source as a clause."""
        if self.origin == POLICY:
            return f"{self.by} '{self.pattern}'"
        if self.origin == PATTERN:
            return f"pattern '{self.pattern}', set by {self.by}{self.place}"
        if self.origin == VHOST:
            return f"vhost pattern '{self.pattern}', set by {self.by}{self.place}"
        if self.origin == BROKER:
            return f"broker, set by {self.by}{self.place}"
        return "declared" if self.origin == ARGUMENT else "default"


def read_value(subject: str, name: str, kind: str, value: object) -> SettingValue:
    """Parse a value. Raises PreconditionFailed (406) that names `subject`, setting, value and rule."""
    if kind == setting_names.POLICY:
        return _policy(subject, name, value)
    if kind == setting_names.SLOW:
        return _choice(subject, name, value, setting_names.SLOW_POLICIES, "a policy for slow consumers")
    if kind == setting_names.LAG:
        return _choice(subject, name, value, setting_names.LAG_POLICIES, "a policy for cursors that are behind")
    if kind == setting_names.PAGE_FULL:
        return _choice(
            subject, name, value, setting_names.PAGE_FULL_POLICIES, "a policy for what may not be paged any more"
        )
    if kind == setting_names.NAME:
        return _name(subject, name, value)
    if kind == setting_names.SWITCH:
        return _switch(subject, name, value)
    if _is_none(name, kind, value):
        return SettingValue(name, value, none=True, number=-1)
    if kind == setting_names.MEMORY and isinstance(value, str) and value.strip().endswith("%"):
        share = _real(value.strip()[:-1])
        if share is None or not 0 < share <= 100:
            raise PreconditionFailed(f"{subject}: {name}={value} is not a share of the machine's memory, 1% to 100%")
        return SettingValue(name, value, real=share, text="%")
    if kind == setting_names.FREE and (
        name in setting_names.USAGE or (isinstance(value, str) and value.strip().endswith("%"))
    ):
        return _free_share(subject, name, value)
    if kind in (setting_names.PERCENT, setting_names.SECONDS, setting_names.PERIOD, setting_names.RATE):
        return _read_real(subject, name, kind, value)
    number = _number(value, name, kind)
    if number is None:
        raise PreconditionFailed(
            f"{subject}: {name}={shown(value, True)} is not a whole number{_with_unit(_units(name, kind))}"
        )
    least = 1 if kind in (setting_names.BURST, setting_names.LIMIT, setting_names.WEIGHT) else 0
    if kind == setting_names.QUOTA and number == 0:
        raise PreconditionFailed(f"{subject}: {name}=0 would stop everything for ever; use none for no quota")
    _check_range(subject, name, number, least)
    if kind == setting_names.MILLISECONDS and number > MILLISECONDS_MAX:
        raise PreconditionFailed(f"{subject}: {name}={number} is too large; the most is {MILLISECONDS_MAX} (2**53 ms)")
    if kind == setting_names.WEIGHT and number > 100:
        raise PreconditionFailed(f"{subject}: {name}={number} is too large; a weight is between 1 and 100")
    if name.removeprefix("x-") == "expires" and number == 0:
        raise PreconditionFailed(f"{subject}: {name}=0 would delete the queue at once; the least is 1 (ms)")
    if name.removeprefix("x-") == "consumer-timeout" and number == 0:
        raise PreconditionFailed(f"{subject}: {name}=0 leaves no time to acknowledge; use none for no timeout")
    if name.startswith("qpid.flow_resume"):
        number -= 1
    return SettingValue(name, value, number=number, real=float(number))


def _switch(subject: str, name: str, value: object) -> SettingValue:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise PreconditionFailed(f"{subject}: {name}={shown(value)} is neither true nor false")
    return SettingValue(name, value, text=text)


def _free_share(subject: str, name: str, value: object) -> SettingValue:
    """Return the share of the file system that must be free, or that may be in use."""
    share = _real(value.strip().rstrip("%") if isinstance(value, str) else value)
    if share is None or not 0 < share <= 100:
        raise PreconditionFailed(f"{subject}: {name}={shown(value)} is not a share of the file system, 1% to 100%")
    if name in setting_names.USAGE:
        share = 100 - share
    return SettingValue(name, value, real=share, text="%", none=share == 0)


def _check_range(subject: str, name: str, number: float, least: int) -> None:
    if number < 0:
        raise PreconditionFailed(f"{subject}: {name}={shown(number)} is negative; the least is {least}")
    if number < least:
        raise PreconditionFailed(f"{subject}: {name}={number} is too small; the least is {least}")
    if number >= NUMBER_MAX:
        raise PreconditionFailed(f"{subject}: {name}={shown(number)} is too large; the most is 2**62 - 1")


def _read_real(subject: str, name: str, kind: str, value: object) -> SettingValue:
    real = _real(value)
    units = _units(name, kind)
    if real is None and isinstance(value, str | bytes):
        found = amount(_text(value), units)
        if found is not None:
            real = float(found / 1000 if units is TIMES else found)
    if real is None:
        raise PreconditionFailed(f"{subject}: {name}={shown(value, True)} is not a number{_with_unit(units)}")
    if name in setting_names.WHOLE_RATES and (real <= 0 or not real.is_integer()):
        raise PreconditionFailed(
            f"{subject}: {name}={shown(value)} is not a positive whole number of messages a second; -1 is no limit"
        )
    if real < 0:
        less = "; -1 or none is no limit" if name in setting_names.NEGATIVE_IS_NONE else ""
        raise PreconditionFailed(f"{subject}: {name}={shown(value)} is negative{less or '; the least is 0'}")
    if kind == setting_names.PERCENT and real > 100:
        raise PreconditionFailed(f"{subject}: {name}={shown(value)} is not a percentage between 0 and 100")
    if kind == setting_names.RATE and real == 0:
        raise PreconditionFailed(f"{subject}: {name}=0 would stop it for ever; use `penstock block`, or unset the rate")
    if kind == setting_names.PERIOD and real == 0:
        raise PreconditionFailed(f"{subject}: {name}=0 must be more than 0 seconds")
    if kind in (setting_names.SECONDS, setting_names.PERIOD) and real > MILLISECONDS_MAX / 1000:
        most = f"{MILLISECONDS_MAX / 1000} (2**53 ms)"
        raise PreconditionFailed(f"{subject}: {name}={shown(value)} is too large; the most is {most}")
    _check_range(subject, name, real, 0)
    return SettingValue(name, value, number=int(real), real=real)


def _is_none(name: str, kind: str, value: object) -> bool:
    if kind in (setting_names.PERIOD, setting_names.BURST, setting_names.WEIGHT):
        return False
    if isinstance(value, str | bytes) and _text(value) == "none":
        return True
    number = _real(value)
    if number is None:
        return False
    return (number == 0 and name in setting_names.ZERO_IS_NONE) or (
        number == -1 and name in setting_names.NEGATIVE_IS_NONE
    )


def _policy(subject: str, name: str, value: object) -> SettingValue:
    reason = setting_names.REFUSED_POLICIES.get(_text(value))
    if reason is not None:
        raise NotImplementedHere(f"{subject}: {name}={shown(value)} is not supported: {reason}")
    known = setting_names.OVERFLOW_ALIASES
    if name == "address-full-policy":
        known = known | setting_names.ARTEMIS_POLICIES
    return _choice(subject, name, value, known, "an overflow policy")


def _name(subject: str, name: str, value: object) -> SettingValue:
    if not isinstance(value, str):
        raise PreconditionFailed(f"{subject}: {name}={shown(value, True)} is not text")
    if len(value.encode(errors="replace")) > NAME_MAX:
        raise PreconditionFailed(f"{subject}: {name}={shown(value)} is longer than {NAME_MAX} octets")
    return SettingValue(name, value, text=value)


def _choice(subject: str, name: str, value: object, known: dict[str, str], what: str) -> SettingValue:
    chosen = known.get(_text(value))
    if chosen is None:
        near = nearest(_text(value), sorted(known))
        hint = f"did you mean {near}?" if near else f"known are {', '.join(sorted(known))}"
        raise PreconditionFailed(f"{subject}: {name}={shown(value)} is not {what}; {hint}")
    return SettingValue(name, value, text=chosen)


def shown(value: object, quoted: bool = False) -> str:
    """Return a value as text for a message; text that is not a number in quotes, if `quoted`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    text = repr(value) if quoted else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _text(value: object) -> str:
    return (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip().lower()


def _number(value: object, name: str, kind: str) -> int | None:
    """Return a whole number, also from its decimal text ("5"), as Qpid C++ takes it, or with a unit ("64MiB")."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if not isinstance(value, str | bytes):
        return None
    text = _text(value)
    if len(text) > NUMBER_LETTERS:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    found = amount(text, _units(name, kind))
    return int(found) if found is not None and found.denominator == 1 else None


def _units(name: str, kind: str) -> dict[str, int]:
    """Return the units that a setting may have: bytes, or milliseconds."""
    if kind in (setting_names.MILLISECONDS, setting_names.SECONDS, setting_names.PERIOD):
        return TIMES
    if kind in IN_BYTES or name.endswith("-bytes"):
        return BYTES | ARTEMIS_UNITS if name in ARTEMIS_SIZES else BYTES
    return {}


def _with_unit(units: dict[str, int]) -> str:
    return f", or one with a unit such as {'30min' if units is TIMES else '64MiB'}" if units else ""


def _real(value: object) -> float | None:
    """Return a finite number, also from its decimal text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | bytes):
        return None
    try:
        number = float(_text(value) if isinstance(value, str | bytes) else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
