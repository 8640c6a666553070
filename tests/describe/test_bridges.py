"""Bridges for display: labels, counts by state, and RabbitMQ's words."""

from __future__ import annotations

from penstock.describe.bridges import (
    BRIDGE,
    FEDERATION,
    LABELLED_MOST,
    SHOVEL,
    labelled_bridges,
    labelled_links,
    labelled_shovels,
    labelled_states,
    link_status,
    shovel_status,
)
from penstock.describe.table import Reading, Row
from penstock.management.bridges import STATES


def bridge(name: str, state: str, component: str = SHOVEL, **fields: object) -> Row:
    return {"vhost": "/", "name": name, "component": component, "state": state, "link": None, **fields}


ROWS = [
    bridge("a", "moving", carried=10, bytes=100, refused=0, lag=None, last=5.5, since=3.0),
    bridge("b", "held"),
    bridge("c", "away"),
    bridge("d", "paused", "bridge"),
    bridge("none", "unused", FEDERATION),
    bridge("up", "idle", FEDERATION, link={"kind": "queue", "resource": "orders"}),
]


def test_states_of_bridges_have_words_of_rabbitmq() -> None:
    assert {state: (shovel_status(state), link_status(state)) for state in STATES} == {
        **dict.fromkeys(("moving", "idle", "held", "refused", "ended", "unused"), ("running", "running")),
        "starting": ("starting", "starting"),
        "away": ("terminated", "error"),
        "paused": ("terminated", "shutdown"),
    }


def test_bridges_are_counted_by_state_and_by_rabbitmq_status() -> None:
    assert [(labels, count.number) for labels, count in labelled_shovels(ROWS)] == [
        ('status="running"', 2),
        ('status="terminated"', 1),
    ]
    assert [(labels, count.number) for labels, count in labelled_links(ROWS)] == [('status="running"', 1)]
    assert [(labels, count.number) for labels, count in labelled_states(ROWS)] == [
        ('component="bridge",state="paused"', 1),
        ('component="federation",state="idle"', 1),
        ('component="federation",state="unused"', 1),
        ('component="shovel",state="away"', 1),
        ('component="shovel",state="held"', 1),
        ('component="shovel",state="moving"', 1),
    ]


def test_figures_of_a_bridge_leave_out_what_is_unknown() -> None:
    labels, row = labelled_bridges(ROWS)[0]
    assert labels == 'vhost="/",bridge="a",component="shovel"'
    at = Reading(0.0)
    assert [family.value(row, at) for family in BRIDGE.families] == [10, 100, 0, None, 5.5, 3.0]
    assert labelled_bridges(ROWS)[-1][0].endswith(',component="federation",resource="orders"')


def test_bridges_with_figures_of_their_own_are_bounded() -> None:
    assert len(labelled_bridges([bridge(str(number), "idle") for number in range(LABELLED_MOST + 5)])) == LABELLED_MOST
