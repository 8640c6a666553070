"""The how-to guides work as they stand: each program of a page is run, and each of its commands."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from penstock.sync import connect
from scripts.site_hooks import with_programs
from tests.support.brokers import BrokerProcess, eventually, penstock_command, serving
from tests.support.pika_helpers import channel_of
from tests.support.walkthrough import BLOCK, Walkthrough, steps

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "how-to"
RUN_ELSEWHERE = {
    "testing": "its programs are tests: tests/testing/test_examples.py",
    "shards": "it has a node of its own: tests/clients/test_shards_guide.py",
    "backup": "it stops and starts its broker: tests/clients/test_backup_guide.py",
}
PAGES = sorted({path.stem for path in FOLDER.glob("*.md")} - RUN_ELSEWHERE.keys())
TROUBLE = ROOT / "docs" / "trouble.md"
TROUBLE_ELSEWHERE = {
    "python": 4,  # tests/clients/test_documented.py
    "text": 3,  # answers: tests/management/test_why.py
    "toml": 1,
}
"""Blocks of the page about trouble that are no commands, by their language."""
OF_RABBITMQ = ROOT / "tests" / "compat" / "rabbitmq_definitions.json"
RABBITMQCTL = f'rabbitmqctl() {{ cp {OF_RABBITMQ} "$2"; }}; '
"""In place of RabbitMQ's program: what it has exported."""
SETTINGS_FILE = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""Lines of a settings file."""
OPERATED = {"look", "sizing"}
"""Guides for a queue that is there already."""
NOT_RUN = {
    "penstock queues redrive failed --trust-headers": "needs dead letters: tests/operations/test_transfers.py",
}
"""Commands in sentences that are not run, and why."""


def text_of(page: str) -> str:
    """Return a guide with the programs that its page of the site has."""
    return with_programs((FOLDER / f"{page}.md").read_text())


def commands_in_sentences(page: str) -> Iterator[str]:
    """Yield the commands that sentences and tables of a page name with their arguments."""
    for command in re.findall(r"`(penstock [^`\n]*)`", BLOCK.sub("", page)):
        if "NAME" not in command and not re.fullmatch(r"penstock [a-z]+( (import|publish|plan))?", command):
            yield command


@pytest.fixture
def prepared(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with a flow log beside a stopped one, with the connection `web-1` and the user `reports`."""
    with serving(tmp_path, "--data", str(tmp_path / "stopped")):
        pass
    with serving(tmp_path, "--flow-log", str(tmp_path / "flow-log")) as broker:
        assert penstock_command("users", "add", "reports", "--no-password", "--url", broker.url).returncode == 0
        parameters = pika.URLParameters(broker.url)
        parameters.client_properties = {"connection_name": "web-1"}
        with pika.BlockingConnection(parameters):
            yield broker
        assert "Traceback" not in broker.log()


def with_orders(broker: BrokerProcess, flow_log: Path) -> None:
    """Make the queue that operators look at: messages came and went, its cursor is not read now, the log has it."""
    with channel_of(broker, confirms=True) as channel:
        channel.queue_declare("orders")
        for number in range(50):
            channel.basic_publish("", "orders", str(number).encode())
        for _ in range(50):
            channel.basic_get("orders", auto_ack=True)
    with connect(broker.url, protocol="amqp091") as control:
        control.attach_cursor("billing", ["orders"])
    sample = re.compile(r'"event":"depth".*"queue":"orders"')
    eventually(
        lambda: any(sample.search(file.read_text()) for file in flow_log.rglob("*.jsonl")), "a sample of the queue"
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_guide_works_command_by_command(page: str, prepared: BrokerProcess, tmp_path: Path) -> None:
    text = text_of(page)
    blocks = steps(text)
    assert len(re.findall("^ *```", SETTINGS_FILE.sub("", text), re.MULTILINE)) == 2 * len(blocks), "every block is run"
    if page in OPERATED:
        with_orders(prepared, tmp_path / "flow-log")
    address = f"{prepared.host}:{prepared.port}"
    places = {"/var/lib/penstock": str(tmp_path / "stopped"), "127.0.0.1:5672": address}
    reader = Walkthrough(prepared, tmp_path, places=places, shell=RABBITMQCTL)
    try:
        for step in blocks:
            reader.take(step)
        for number, lines in enumerate(SETTINGS_FILE.findall(text)):
            (tmp_path / f"{number}.toml").write_text(lines)
            reader.run(f"penstock serve --check --config {number}.toml", [])
        for command in sorted(set(commands_in_sentences(text)) - NOT_RUN.keys()):
            reader.run(command, [])
        reader.end()
    finally:
        reader.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "section", "count"), [("flow-control", "The gate of a queue", 3), ("spark-elsewhere", "On a cluster", 1)]
)
def test_section_of_a_page_works_command_by_command(
    page: str, section: str, count: int, prepared: BrokerProcess, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    blocks = steps(text.partition(f"\n## {section}\n")[2].partition("\n## ")[0])
    assert len(blocks) == count
    reader = Walkthrough(prepared, tmp_path)
    try:
        for step in blocks:
            reader.take(step)
        reader.end()
    finally:
        reader.kill()


@pytest.mark.slow
def test_commands_of_the_page_about_trouble_work(prepared: BrokerProcess, tmp_path: Path) -> None:
    text = TROUBLE.read_text()
    blocks = steps(text)
    languages = Counter(re.findall(r"^ *```(\w+)", text, re.MULTILINE))
    assert languages == {**TROUBLE_ELSEWHERE, "console": len(blocks)}
    with_orders(prepared, tmp_path / "flow-log")
    reader = Walkthrough(prepared, tmp_path, places={"/var/lib/penstock": str(tmp_path / "stopped")})
    try:
        for step in blocks:
            reader.take(step)
    finally:
        reader.kill()


def test_commands_that_are_not_run_are_in_the_guides() -> None:
    named = {command for page in PAGES for command in commands_in_sentences(text_of(page))}
    assert NOT_RUN.keys() <= named
