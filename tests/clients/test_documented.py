"""The code in docs/trouble.md and docs/how-to/celery.md does what the pages say, against a real broker."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.server.alarm_hook import signature
from tests.support.brokers import BrokerProcess, eventually
from tests.support.pika_helpers import channel_of, declare, take_all
from tests.support.spark_programs import BLOCK

BOUNDED = {"capacity-messages": 10, "stop-messages": 2, "resume-messages": 1, "hold-deadline": 1}
ROOT = Path(__file__).resolve().parents[2]
REASON = re.compile(
    r"refused after its hold deadline of 1 s; queue 'orders' holds 3 messages, [0-9,]+ bytes "
    r"\(closed above 2 messages, opens at 1 message, capacity 10 messages\)"
)


def snippet(page: str, heading: str, broker: BrokerProcess) -> str:
    """Return the first Python code below a heading, for this broker."""
    text = "\n" + (ROOT / page).read_text()
    below = text[text.index(f"\n{heading}\n") :]
    code = BLOCK.findall(below)[0][1]
    assert "127.0.0.1:5672" in code
    return code.replace("127.0.0.1:5672", f"{broker.host}:{broker.port}")


def run(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, "documented", "exec"), names)
    return names


def sends_until_stopped(send: Callable[[bytes], bool]) -> list[bool]:
    return [send(f"order {number}".encode()) for number in range(5)]


def test_pika_finds_the_reason_in_its_error_the_log_and_penstock_why(
    own_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(own_broker, "orders", durable=True, **BOUNDED)
    names = run(snippet("docs/trouble.md", "#### pika", own_broker))
    assert sends_until_stopped(names["send"]) == [True, True, True, False, False]
    first, second = capsys.readouterr().out.splitlines()
    for line in (first, second):
        assert line.startswith("refused: RESOURCE_ERROR - ")
        assert REASON.search(line)
    assert own_broker.depth("orders") == 3, "there is room for 7 more"
    sentences = own_broker.why("--connection", "web-1")
    assert "stopped: it has waited a whole hold deadline" in sentences
    assert re.search(r"2 publishes were refused \([0-9,]+ bytes\), the last \d+\.\d s ago: publish to", sentences)
    assert REASON.search(sentences)
    port = names["connection"]._impl._transport._sock.getsockname()[1]
    assert REASON.search(own_broker.why("--connection", str(port)))
    (line, *_) = eventually(lambda: own_broker.logged("PST-1015"), "the broker's log says it")
    assert REASON.search(line)
    names["connection"].close()


def test_aio_pika_raises_and_its_log_has_the_reason(
    own_broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    declare(own_broker, "orders", durable=True, **BOUNDED)
    names = run(snippet("docs/trouble.md", "#### aio-pika", own_broker))

    async def story() -> list[bool]:
        connection, channel = await names["connect"]()
        sent = [await names["send"](channel, b"order") for _ in range(5)]
        assert REASON.search(await asyncio.to_thread(own_broker.command, "why", "--connection", "web-1"))
        await connection.close()
        return sent

    with caplog.at_level(logging.WARNING, "aiormq.connection"):
        assert asyncio.run(story()) == [True, True, True, False, False]
    assert any("refused after 1 s" in record.getMessage() for record in caplog.records)
    assert own_broker.depth("orders") == 3


def test_kombu_gets_the_reason_before_it_raises(own_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    declare(own_broker, "orders", durable=True, **BOUNDED)
    names = run(snippet("docs/trouble.md", "#### kombu", own_broker))
    assert sends_until_stopped(names["send"]) == [True, True, True, False, False]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert REASON.search(line)
    assert own_broker.depth("orders") == 3
    assert REASON.search(own_broker.why("--connection", "web-1"))
    with channel_of(own_broker) as channel:
        take_all(channel, "orders")
    assert names["send"](b"after it opened") is True, "each answer belongs to its own publish"
    names["connection"].release()


@pytest.mark.slow
def test_celery_knows_whether_a_task_is_in_its_queue(own_broker: BrokerProcess) -> None:
    code = snippet("docs/how-to/celery.md", "## A queue with a bound", own_broker)
    documented = '{"capacity-messages": 20, "hold-deadline": 2}'
    assert documented in code
    small = '{"capacity-messages": 10, "stop-messages": 2, "resume-messages": 1, "hold-deadline": 1}'
    names = run(code.replace(documented, small))
    answers = [names["enqueue"](number) for number in range(5)]
    assert answers == [True, True, True, False, False]
    assert own_broker.depth("tasks") == 3
    lines = eventually(lambda: own_broker.logged("PST-1015"), "the broker's log says it")
    assert "queue 'tasks' holds 3 messages" in lines[0]
    names["app"].close()


def test_check_of_a_signature_takes_what_the_web_hook_signs_and_nothing_else() -> None:
    text = (ROOT / "docs" / "trouble.md").read_text()
    (code,) = [each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "hmac" in each]
    is_genuine = run(code)["is_genuine"]
    header = signature("key", 1_796_004_669, b"{}")
    assert is_genuine(header, b"{}", b"key")
    assert not is_genuine(header, b"{} ", b"key")
    assert not is_genuine(header, b"{}", b"another")
    assert not is_genuine(header.replace("1796004669", "1796004670"), b"{}", b"key")
