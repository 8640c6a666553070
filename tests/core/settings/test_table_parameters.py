"""Stored parameters: their order, and their bounds."""

from __future__ import annotations

import pytest

from penstock.core.settings.table import OCTETS_MAX, Parameter, ParameterTable
from penstock.errors import PreconditionFailed, ResourceError


def test_parameters_are_kept_by_component_vhost_and_name() -> None:
    table = ParameterTable()
    shovel = Parameter("shovel", "/", "s", {"src-uri": "amqp://"})
    assert table.put(shovel) is None
    table.put(Parameter("federation-upstream", "eu", "f", {}))
    table.put(Parameter("", "", "cluster_name", "rabbit@here"))
    assert [each.name for each in table.of()] == ["s", "f"]
    assert [each.name for each in table.of("shovel", "/")] == ["s"]
    assert [each.name for each in table.global_ones()] == ["cluster_name"]
    assert {each.name for each in table.every()} == {"s", "f", "cluster_name"}
    assert table.put(Parameter("shovel", "/", "s", {})) is shovel
    assert [each.name for each in table.drop_vhost("eu")] == ["f"]
    assert table.drop("shovel", "eu", "s") is None
    assert table.get("shovel", "/", "s") is not None


def test_change_of_the_table_gives_a_parameter_its_own_revision() -> None:
    table = ParameterTable()
    one, two = Parameter("shovel", "/", "one", {}), Parameter("shovel", "/", "two", {}, "anna")
    assert (one.run_as, two.run_as) == ("", "anna")
    table.put(one)
    table.put(two)
    assert (one.revision, two.revision, table.changes) == (1, 2, 2)
    table.touch(one)
    table.drop("shovel", "/", "two")
    table.drop("shovel", "/", "two")
    assert (one.revision, table.changes) == (3, 4)


def test_parameters_are_bounded() -> None:
    table = ParameterTable()
    with pytest.raises(PreconditionFailed, match="has 70,010 bytes; the most is 24,576"):
        table.put(Parameter("shovel", "/", "s", "x" * 70_000))
    with pytest.raises(PreconditionFailed, match="global parameter '': a name has 1 to 255 bytes"):
        table.put(Parameter("", "", "", 1))
    with pytest.raises(PreconditionFailed, match="at most 255 bytes"):
        table.put(Parameter("", "", "n" * 300, 1))
    text = "x" * 24_000
    for number in range(OCTETS_MAX // 24_020):
        table.put(Parameter("shovel", "/", str(number), text))
    with pytest.raises(ResourceError, match="at most 16,777,216 bytes"):
        table.put(Parameter("shovel", "/", "more", text))
