"""Texts of the command line as workloads and values of a grid: ``poisson:2000``, ``16MiB,64MiB``, ``10,100,none``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from penstock_simulation.workload import Source, Worker

Value = TypeVar("Value")

_SIZES = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_TIMES = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
NONE = ("none", "default")


class TextError(ValueError):
    """Error for an invalid text, in one sentence."""


def octets(text: str) -> int:
    """Return a size in bytes: a number with KiB, MiB, GiB or nothing."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    if found is None or found[2].upper() not in _SIZES:
        raise TextError(f"'{text}' is not a size, such as 64MiB")
    return int(float(found[1]) * _SIZES[found[2].upper()])


def seconds(text: str) -> float:
    """Return a time in seconds: a number with ms, s, m, h or nothing."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", text)
    if found is None:
        raise TextError(f"'{text}' is not a time, such as 30s")
    return float(found[1]) * _TIMES[found[2] or ""]


def percent(text: str) -> float:
    """Return a percentage from 0 to 100."""
    value = number(text.removesuffix("%"))
    if value > 100:
        raise TextError(f"'{text}' is above 100 percent")
    return value


def number(text: str) -> float:
    """Return a number from 0 on."""
    if re.fullmatch(r"\d+(\.\d+)?", text) is None:
        raise TextError(f"'{text}' is not a number")
    return float(text)


def whole(text: str) -> int:
    """Return a whole number from 1 on."""
    if re.fullmatch(r"[1-9]\d{0,8}", text) is None:
        raise TextError(f"'{text}' is not a whole number from 1 on")
    return int(text)


def values(text: str, one: Callable[[str], Value]) -> tuple[Value | None, ...]:
    """Return values that are separated by commas; ``none`` and ``default`` are None."""
    return tuple(None if each.strip() in NONE else one(each.strip()) for each in text.split(","))


def given(text: str, one: Callable[[str], Value]) -> tuple[Value, ...]:
    """Return values that are separated by commas."""
    return tuple(one(each.strip()) for each in text.split(","))


def source(text: str, octets_each: int, producers: int) -> Source:
    """Return the arrivals of one of `producers` producers that share a rate.

    ``poisson:RATE``, ``steady:RATE``, ``bursts:RATE:SIZE``, ``mmpp:RATE/SECONDS:RATE/SECONDS...``; rates are messages
    per second of all producers together. Raises `TextError`.
    """
    kind, *rest = text.split(":")
    shape = {"poisson": 1, "steady": 1, "bursts": 2}.get(kind)
    if shape == len(rest):
        rates = (_rate(rest[0], text) / producers,)
        return Source(kind, octets_each, rates, size=whole(rest[1]) if shape == 2 else 1)
    if kind == "mmpp" and rest:
        states = [state.partition("/") for state in rest]
        parts = tuple(number(rate) / producers for rate, _, _ in states)
        dwells = tuple(number(dwell) for _, _, dwell in states)
        if min(dwells) <= 0 or max(parts) <= 0:
            raise TextError(f"the arrivals '{text}' need a rate above 0, and a time above 0 for each state")
        return Source(kind, octets_each, parts, dwells)
    raise TextError(
        f"the arrivals '{text}' are none of poisson:RATE, steady:RATE, bursts:RATE:SIZE and "
        "mmpp:RATE/SECONDS:RATE/SECONDS"
    )


def worker(text: str, consumers: int) -> Worker:
    """Return the service of one of `consumers` consumers that share a rate.

    ``exponential:RATE`` or ``constant:RATE``, in messages per second of all together. Raises `TextError`.
    """
    kind, _, rate = text.partition(":")
    if kind not in ("exponential", "constant"):
        raise TextError(f"the services '{text}' are neither exponential:RATE nor constant:RATE")
    return Worker(kind, (_rate(rate, text) / consumers,))


def _rate(text: str, whole_text: str) -> float:
    rate = number(text)
    if rate <= 0:
        raise TextError(f"the rate of '{whole_text}' must be above 0")
    return rate
