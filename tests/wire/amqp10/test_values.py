"""Python values that carry their AMQP type."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import values
from penstock.wire.amqp10.values import Array, Described, Symbol, Typed, tagged, timestamp, uint, ulong


def test_equal_values_of_other_types_differ() -> None:
    assert Symbol("a") != "a"
    assert uint(5) != ulong(5)
    assert uint(5) != 5
    assert uint(5) == Typed("uint", 5)
    assert Described(ulong(1), 2) == Described(ulong(1), 2) != Described(ulong(2), 2)
    assert Array("uint", [1]) == Array("uint", [1]) != Array("ulong", [1])
    assert Array("uint", [1]) != Array("uint", [1], (ulong(3),))


def test_symbols_and_typed_values_are_keys_of_a_dict_and_arrays_are_not() -> None:
    found: dict[object, int] = {Symbol("a"): 1, "a": 2, uint(1): 3, ulong(1): 4, Described(ulong(1), 1): 5}
    assert [found[key] for key in (Symbol("a"), "a", uint(1), ulong(1), Described(ulong(1), 1))] == [1, 2, 3, 4, 5]
    with pytest.raises(TypeError, match="no hash"):
        hash(Array("uint", []))


def test_value_is_marked_only_where_its_python_type_does_not_tell() -> None:
    assert tagged(values.LONG, 5) == 5
    assert tagged(values.STRING, "a") == "a"
    assert tagged(values.SYMBOL, "a") == Symbol("a")
    assert tagged(values.TIMESTAMP, 5) == timestamp(5)
    assert tagged(values.CHAR, "a") == Typed("char", "a")


def test_values_say_their_type_to_people() -> None:
    assert repr(Symbol("a")) == "Symbol('a')"
    assert str(Symbol("a")) == "a"
    assert repr(uint(5)) == "uint(5)"
    assert repr(Described(ulong(1), None)) == "Described(ulong(1), None)"
    assert repr(Array("uint", [1])) == "Array('uint', [1])"
