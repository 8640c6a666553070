"""Parts of long lists of queues, each for one request: the broker bounds the bytes and the values of a request."""

from collections.abc import Iterable, Mapping

PART_NAMES = 2_000
"""Most queues of a part. With two numbers each, a part has 6,000 values; a request may have 10,000."""
PART_VALUES = 6_000
"""Most values of a part that has lists of numbers."""
PART_OCTETS = 120 * 1024
"""Most bytes of a part, so that a request may have it twice; a request may have 256 KiB."""
_MORE_OCTETS = 30
"""Bytes of a number and of separators, beside each name."""


def parts_of(names: Iterable[str]) -> list[list[str]]:
    """Return names in parts, in their order; one empty part without names."""
    parts: list[list[str]] = [[]]
    octets = 0
    for name in names:
        more = _octets(name)
        if len(parts[-1]) >= PART_NAMES or octets + more > PART_OCTETS:
            parts.append([])
            octets = 0
        parts[-1].append(name)
        octets += more
    return parts


def numbers_in_parts(numbers: Mapping[str, int]) -> list[dict[str, int]]:
    """Return numbers by queue in parts; one empty part without numbers."""
    if len(numbers) <= PART_NAMES and sum(map(_octets, numbers)) <= PART_OCTETS:
        return [dict(numbers)]
    return [{name: numbers[name] for name in part} for part in parts_of(numbers)]


def lists_in_parts(lists: Mapping[str, list[int]]) -> list[dict[str, list[int]]]:
    """Return lists of numbers by queue in parts; one empty part without lists. A list is not divided."""
    parts: list[dict[str, list[int]]] = [{}]
    values = octets = 0
    for name, numbers in lists.items():
        more = _octets(name) + _MORE_OCTETS * len(numbers)
        if parts[-1] and (values + len(numbers) + 1 > PART_VALUES or octets + more > PART_OCTETS):
            parts.append({})
            values = octets = 0
        parts[-1][name] = numbers
        values, octets = values + len(numbers) + 1, octets + more
    return parts


def _octets(name: str) -> int:
    """Return the most bytes that a name takes in JSON, with its numbers and separators."""
    is_plain = name.isascii() and name.isprintable() and '"' not in name and "\\" not in name
    return len(name) * (1 if is_plain else 12) + _MORE_OCTETS
