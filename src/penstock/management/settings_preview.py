"""Preview of a change of one queue's settings: the limits that it would have, and what would happen at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.queue.paging_setup import check
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.settings.changes import matching_steps
from penstock.core.settings.policy import kind_of
from penstock.core.settings.table import COMMAND
from penstock.flow.level import Thresholds
from penstock.flow.measure import amount
from penstock.flow.work import Steps
from penstock.management.control_request import ControlRequest
from penstock.management.effective_settings import hidden, hidden_sentence, source_of
from penstock.management.settings_api import given_settings
from penstock.setting_names import SettingValue, read_pattern

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.management.node import Node


def preview_steps(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer settings.preview {queue, settings}: its limits before and after `settings.set`, with sentences.

    Nothing is changed. Raises NotFound (404), and PreconditionFailed (406) where the change would be refused.
    """
    name = request.text("queue")
    queue = request.vhost.queue(name, request.connection)
    pattern = read_pattern("queue", name)
    words = given_settings(request, "queue", pattern)
    matched = yield from matching_steps(node.broker, "queue", pattern)
    after, without_effect = resolved(node.broker, queue, pattern, words)
    sentences = consequences(queue, after.thresholds)
    if after.overflow.name != queue.overflow.name:
        sentences.append(f"its overflow policy becomes {after.overflow.name}, now it is {queue.overflow.name}")
    others = len(matched) - 1
    if others > 0:
        noun = "queue" if others == 1 else "queues"
        sentences.append(f"the pattern '{pattern}' matches {others:,} more {noun}, which would change as well")
    sentences += without_effect
    return {"before": limits_of(queue.thresholds), "after": limits_of(after.thresholds), "sentences": sentences}


def resolved(broker: Broker, queue: Queue, pattern: str, words: dict[str, SettingValue]) -> tuple[Settings, list[str]]:
    """Return the settings that a queue would have with more words set by command, and sentences on what has no effect.

    The table is as before then.
    """
    table = broker.table
    before = table.entries_of("queue", pattern, COMMAND)
    table.set("queue", pattern, COMMAND, {**before, **words})
    try:
        found = table.queue(queue.vhost, queue.name, queue.settings.given, kind_of(queue.features))
        check(queue.name, found, queue.features, broker.journal)
        without_effect = [
            hidden_sentence(words[setting], source_of(other), [queue.name])
            for setting, other in hidden(broker, queue, found, words)
        ]
    finally:
        table.set("queue", pattern, COMMAND, before)
    return found, without_effect


def limits_of(thresholds: Thresholds) -> dict[str, object]:
    """Return thresholds as plain data; None is no limit."""
    return {
        "capacity": thresholds.capacity.as_dict(),
        "stop": thresholds.stop.as_dict(),
        "resume": thresholds.resume.as_dict(),
    }


def consequences(queue: Queue, after: Thresholds) -> list[str]:
    """Describe what new thresholds would do to the gate of a queue, and to those who wait there."""
    messages, size = queue.depth_messages(), queue.depth_bytes()
    now, gate, counted = queue.thresholds, queue.gate, after.capacity.counted(messages, size)
    if limits_of(now) == limits_of(after):
        return ["its limits stay as they are"]
    depth = f"{amount(messages)} messages, {amount(counted)} bytes"
    blocked = len(gate.blocked)
    sentences: list[str] = []
    if gate.open and after.overfull(messages, size):
        sentences.append(f"its gate closes at once: the depth is {depth}, above stop {after.stop.describe()}")
        sentences.append(f"it opens again when the depth is at most resume {after.resume.describe()}")
    elif gate.open:
        sentences.append(f"its gate stays open: the depth is {depth}, and stop is {after.stop.describe()}")
    elif after.underfull(messages, size):
        noun = "producer continues" if blocked == 1 else "producers continue"
        sentences.append(f"its gate opens at once: the depth is {depth}, and {blocked:,} {noun}")
    else:
        sentences.append(
            f"its gate stays closed until the depth, now {depth}, is at most resume {after.resume.describe()}"
        )
    if not after.capacity.covers(messages, size):
        sentences.append(
            f"the depth is above the new capacity of {after.capacity.describe()}: publishes are held until it has room"
        )
    return sentences
