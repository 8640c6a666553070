"""Plans of bridges: what a spec asks for, and what cannot be used."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from penstock.bridges.plans import plan_of
from penstock.errors import ConfigError


async def dial() -> socket.socket:
    raise NotImplementedError


def spec(component: str, value: object) -> dict[str, Any]:
    return {
        "key": "k", "component": component, "vhost": "/", "name": "orders", "run_as": "ada", "revision": 1,
        "value": value,
    }  # fmt: skip


SHOVEL = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://u:secret@old/vh", "dest-exchange": "log"}


def test_plan_names_both_ends_without_secrets() -> None:
    plan = plan_of(spec("shovel", SHOVEL), "house", dial)
    assert (plan.source, plan.target, plan.delay_s) == (
        "queue a of this broker", "exchange log of amqp://old/vh", 5,
    )  # fmt: skip
    assert plan.delivery() == "at least once"
    bridge = {"source": "amqp:///eu?queue=a", "target": "amqp://u:secret@new", "reconnect-delay": 2}
    plan = plan_of(spec("bridge", bridge), "house", dial)
    assert (plan.source, plan.target, plan.delay_s) == (
        "queue a of vhost eu of this broker", "queue a of amqp://new/", 2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("component", "value", "rule"),
    [
        ("shovel", [], "the definition is no object"),
        ("shovel", {}, "the source has no URI"),
        ("bridge", {"source": "amqp:///"}, "the source names no queue"),
        ("bridge", {"source": "amqp:///?queue=a", "target": "http://h"}, "the target is no URL of a broker"),
        ("magic", {}, "this version runs no magic"),
    ],
)
def test_spec_that_cannot_be_used_is_refused(component: str, value: object, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        plan_of(spec(component, value), "house", dial)
