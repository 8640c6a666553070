"""Format codes against the specification's rule: the first half of a code tells the width (section 1.2)."""

from __future__ import annotations

from penstock.wire.amqp10.value_walk import (
    COMPOUND8,
    COMPOUND32,
    KINDS,
    NESTED8,
    NESTED32,
    UNKNOWN,
    VARIABLE8,
    VARIABLE32,
    WIDTHS,
    codes_of,
)

CODES = bytes.fromhex("40414243444550515253545556606170717273748081828384 9498 a0a1a3b0b1b3 c0c1d0d1 e0f0")
"""All codes of section 1.6."""


def test_format_codes_of_the_specification_alone_have_a_type() -> None:
    assert bytes(code for code in range(256) if KINDS[code]) == CODES


def test_width_follows_from_the_first_half_of_a_code() -> None:
    widths = {
        4: 0,
        5: 1,
        6: 2,
        7: 4,
        8: 8,
        9: 16,
        10: VARIABLE8,
        11: VARIABLE32,
        12: COMPOUND8,
        13: COMPOUND32,
        14: NESTED8,
        15: NESTED32,
    }
    for code in range(256):
        assert WIDTHS[code] == (widths[code >> 4] if code in CODES else UNKNOWN)


def test_set_of_codes_has_all_forms_of_its_types_and_null() -> None:
    found = codes_of("uint", "string")
    assert bytes(code for code in range(256) if found[code]) == bytes.fromhex("40 43 52 70 a1 b1")
