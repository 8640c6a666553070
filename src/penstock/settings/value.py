"""Kinds of values, and one value of a setting with its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

NUMBER_MAX: Final = 1 << 62
"""Above every number, since 64-bit arithmetic of depths could overflow there; no limit, as a number."""
MILLISECONDS_MAX: Final = 1 << 53
"""Longest duration, 285,000 years: above it, a float and JSON's readers cannot tell whole milliseconds apart."""
UNBOUNDED: Final = -1
"""An unbounded window of a consumer: the default of AMQP 0-9-1 (section 1.8.3.1)."""
NO_RATE: Final = -1.0
"""The value for no limit, as in Artemis."""
NOT_SET: Final = -1
"""A delivery limit that is not set: the default depends on the type of the queue."""
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


def shown(value: object, quoted: bool = False) -> str:
    """Return a value as text for a message; text that is not a number in quotes, if `quoted`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    text = repr(value) if quoted else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


@dataclass(frozen=True, eq=False)
class Kind:
    """Kind of a value: rules for what may be written, stored and shown."""

    values: str
    """Values that may be written, for docs/settings.md."""
    unit: str = ""
    """`bytes`, `ms` or `s`: a value may have such a unit."""
    real: bool = False
    """True if it may be a fraction."""
    least: int = 0
    most: float = math.inf
    beyond: str = ""
    """Fault of a value above the most."""
    zero: str = ""
    """Fault of 0; empty if it may be that."""
    optional: bool = True
    """True if it may be `none`."""
    no_limit: float = NUMBER_MAX
    """Number that is stored for `none`; for seconds also for 0."""
    choices: Mapping[str, str] | None = None
    """Texts that may be written in any case, with the one that is stored; None for other kinds."""
    choice: str = ""
    """Noun for these texts."""

    def resolved(self, word: SettingValue) -> object:
        """Return what is stored of a value; durations are in seconds."""
        if self is SWITCH:
            return word.text == "true"
        if self.choices is not None or self is NAME:
            return word.text
        if word.none or (self.unit == "s" and word.real == 0):
            return self.no_limit
        if self.unit == "ms":
            return word.real / 1000
        return word.real if self.real else word.number

    def shown(self, value: object) -> object:
        """Return a stored value as it is written, in the setting's unit; None for no limit."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if value == self.no_limit:
            return None
        if self.unit == "ms":
            return round(value * 1000)
        return int(value) if float(value).is_integer() else value


# fmt: off
OVERFLOW_ALIASES: Final = {
    "block": "block", "producer_flow_control": "block",  # Broker-J
    "drop-head": "drop-head", "ring": "drop-head", "ring-strict": "ring-strict", "ring_strict": "ring-strict",
    "reject": "reject", "reject-publish": "reject",
    "reject-dead-letter": "reject-dead-letter", "reject-publish-dlx": "reject-dead-letter",
    "drop-new": "drop-new", "self-destruct": "self-destruct", "self_destruct": "self-destruct",
    "page": "page", "flow_to_disk": "page", "flow-to-disk": "page",  # Qpid C++, until 2012
}
ARTEMIS_POLICIES: Final = {"drop": "drop-new", "fail": "reject"}
"""Further values of address-full-policy; DROP means the newest message only there."""
PAGE_FULL_POLICIES: Final = {"block": "block", "reject": "reject", "drop-new": "drop-new", **ARTEMIS_POLICIES}
"""Without one Artemis continues without a limit, this broker holds."""
SLOW_POLICIES: Final = {"notify": "notify", "cancel": "cancel", "kill": "cancel"}
"""KILL is Artemis' term; it closes the consumer's connection, this broker cancels the consumer."""
LAG_POLICIES: Final = {"tell": "tell", "detach": "detach"}

TOO_LATE: Final = "is too large; the most is {} (2**53 ms)"
COUNT: Final = Kind("messages, or `none`")
BYTES: Final = Kind("bytes, `64MiB`, `4MB`, or `none`", "bytes")
PERCENT: Final = Kind("percent, or `none`", real=True, most=100, beyond="is not a percentage between 0 and 100")
"""Percent of the capacity; none: no threshold follows from the capacity."""
MILLISECONDS: Final = Kind("milliseconds, `5s`, `30min`, or `none`", "ms", most=MILLISECONDS_MAX,
                           beyond=TOO_LATE.format(MILLISECONDS_MAX), no_limit=math.inf)
EXPIRES: Final = replace(MILLISECONDS, zero="would delete the queue at once; the least is 1 (ms)")
TIMEOUT: Final = replace(MILLISECONDS, zero="leaves no time to acknowledge; use none for no timeout")
SECONDS: Final = Kind("seconds, `5s`, `30min`; 0 and `none`: for ever", "s", real=True, most=MILLISECONDS_MAX / 1000,
                      beyond=TOO_LATE.format(MILLISECONDS_MAX / 1000), no_limit=math.inf)
PERIOD: Final = replace(SECONDS, values="seconds, `5s`, more than 0", zero="must be more than 0 seconds",
                        optional=False)
RATE: Final = Kind("a second, more than 0; or `none`", real=True, no_limit=NO_RATE,
                   zero="would stop it for ever; use `penstock block`, or unset the rate")
BURST: Final = Kind("from 1", least=1, optional=False)
LIMIT: Final = Kind("from 1, or `none`", least=1)
WINDOW: Final = Kind("bytes; 0: one message; -1 and `none`: unbounded", "bytes", no_limit=UNBOUNDED)
"""As Artemis' consumerWindowSize."""
CREDIT_WINDOW: Final = replace(WINDOW, no_limit=NUMBER_MAX)
WEIGHT: Final = Kind("1 to 100", least=1, most=100, beyond="is too large; a weight is between 1 and 100",
                     optional=False)
QUOTA: Final = Kind("bytes, from 1; or `none`", "bytes",
                    zero="would stop everything for ever; use none for no quota")
MEMORY: Final = Kind("bytes, `40%` of the machine, or `none`", "bytes")
FREE: Final = Kind("bytes, `5%` of the file system, or `none`", "bytes")
SWITCH: Final = Kind("`true`, `false`")
NAME: Final = Kind("a name")
"""The name of an exchange, or a routing key: a short string (AMQP 0-9-1 section 4.2.5.3), which may be empty."""
OVERFLOW: Final = Kind("a policy", choices=OVERFLOW_ALIASES, choice="an overflow policy")
SLOW: Final = Kind("`notify`, `cancel`", choices=SLOW_POLICIES, choice="a policy for slow consumers")
LAG: Final = Kind("`tell`, `detach`", choices=LAG_POLICIES, choice="a policy for cursors that are behind")
PAGE_FULL: Final = Kind("`block`, `reject`, `drop-new`", choices=PAGE_FULL_POLICIES,
                        choice="a policy for what may not be paged any more")
# fmt: on
