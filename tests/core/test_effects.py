"""The table of effect handlers."""

import pytest

from penstock.core import effects
from penstock.core.effects import Blocked, Effect, EffectHandlers, GateChanged
from penstock.flow.gate import Gate, GateTransition


def test_effect_is_dispatched_to_the_handler_of_the_class() -> None:
    handled: list[tuple[str, Effect]] = []
    handlers = EffectHandlers()
    handlers.add(GateChanged, lambda effect: handled.append(("changed", effect)))
    handlers.add(Blocked, lambda effect: handled.append(("blocked", effect)))
    effect = GateChanged(GateTransition(Gate("queue", "orders", []), True, 1, 2, 3.0))
    handlers.dispatch(effect)
    assert handled == [("changed", effect)]


def test_effect_without_a_handler_is_ignored() -> None:
    EffectHandlers().dispatch(GateChanged(GateTransition(Gate("queue", "orders", []), True, 1, 2, 3.0)))


def test_second_handler_of_an_effect_class_is_refused() -> None:
    handlers = EffectHandlers()
    handlers.add(GateChanged, lambda effect: None)
    with pytest.raises(AssertionError, match="GateChanged has a handler already"):
        handlers.add(GateChanged, lambda effect: None)


def test_effect_classes_do_not_inherit_from_each_other() -> None:
    found = [each for each in vars(effects).values() if isinstance(each, type) and issubclass(each, Effect)]
    assert len(found) > 10
    assert all(each.__bases__ == (Effect,) for each in found if each is not Effect)
