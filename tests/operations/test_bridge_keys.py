"""Keys of the parameter `bridge`: its ends, and conditions that contradict."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import PreconditionFailed
from penstock.operations.bridge_keys import KEYS, check_bridge, end_text

SECRET = "s3cret"
ENDS: dict[str, Any] = {"source": "amqp:///?queue=orders", "target": f"amqp://carl:{SECRET}@host/v?queue=b"}
EACH = {
    "delivery": "auto", "prefetch": 5, "selector": "a = 1", "forward-headers": True, "max-hops": 2,
    "reconnect-delay": 0.5, "delete-after": 10,
}  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        ENDS,
        {**ENDS, **EACH},
        {**ENDS, "target": "amqp://host"},
        {**ENDS, "target": "amqp://host?exchange=logs"},
        {**ENDS, "target": "amqp://host?exchange=logs&key=k&heartbeat=5"},
        {**ENDS, "source": "amqp:///eu?queue=a%26b", "delivery": "exactly-once"},
    ],
)
def test_bridge_between_two_ends_is_accepted(value: dict[str, Any]) -> None:
    assert {*ENDS, *EACH} == {key.name for key in KEYS}
    assert check_bridge("b", value) is value


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"queue": "x"}, "a bridge has no key 'queue'; known are source, target"),
        ({"source": "amqp://"}, "'source' names no queue: add ?queue=NAME to its URI"),
        ({"source": "amqp://h?exchange=logs"}, "'source' names no queue: add ?queue=NAME to its URI"),
        ({"source": "amqp://h?queue="}, "'source': queue must be a string of 1 to 255 bytes, not ''"),
        ({"source": f"amqp://h?queue={'q' * 256}"}, "'source': queue must be a string of 1 to 255 bytes, not 'qqq"),
        ({"selector": "((a"}, "'selector' is not a selector: "),
        ({"source": "amqp://h?queue=a&queue=b"}, "'source' names its queue twice"),
        ({"target": "amqp://h?queue=a&key=b"}, "'target' names a queue and an exchange: give one"),
        ({"target": "amqp://h?key=b"}, "'target' names a key without an exchange: add exchange=NAME"),
        ({"target": [ENDS["target"]]}, "'target' must be one URI, not a list"),
        ({"target": f"amqp://carl:{SECRET}@host:x"}, "'target' must be a URI of amqp or amqps"),
        ({"target": "orders"}, "'target' must be a URI of amqp or amqps"),
        ({"delivery": "twice"}, "delivery must be auto, exactly-once or at-least-once, not 'twice'"),
        ({"prefetch": 0}, "prefetch must be a whole number from 1 to 65535, not 0"),
        ({"max-hops": 2}, "max-hops needs forward-headers=true, whose header has the hops"),
        ({"max-hops": 65}, "max-hops must be a whole number from 1 to 64, not 65"),
        ({"delivery": "exactly-once", "selector": "a = 1"}, "delivery=exactly-once contradicts 'selector'"),
        ({"delete-after": 0}, "delete-after must be a whole number from 1, not 0"),
    ],
)
def test_wrong_bridge_is_refused_with_key_and_rule(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_bridge("b", {**ENDS, **changes})
    assert str(caught.value).startswith(f"bridge 'b': {error}")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("missing", ENDS)
def test_bridge_without_an_end_is_refused(missing: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"'{missing}' is missing"):
        check_bridge("b", {name: each for name, each in ENDS.items() if name != missing})


@pytest.mark.parametrize(
    ("given", "vhost", "uri"),
    [
        ("orders", "/", "amqp:///?queue=orders"),
        ("a/b&c", "eu/1", "amqp:///eu%2F1?queue=a%2Fb%26c"),
        ("amqp://host?queue=q", "eu", "amqp://host?queue=q"),
        ("", "eu", ""),
    ],
)
def test_name_without_a_scheme_is_a_queue_of_this_broker(given: str, vhost: str, uri: str) -> None:
    assert end_text(given, vhost) == uri
