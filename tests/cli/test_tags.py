"""The table of docs/cli.md: the tag that each command needs, against a real broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess, penstock_command, serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
LINES = {
    "queues show": "queues show orders",
    "why QUEUE": "why orders",
    "connections close": "connections close 999",
    "jobs show": "jobs show 999",
    "jobs cancel": "jobs cancel 999",
    "top": "top --once",
    "queues watch": "queues watch orders --count 1",
    "queues set": "queues set orders stop-percent=60",
    "queues unset": "queues unset orders",
    "queues block": "queues block orders",
    "queues unblock": "queues unblock orders",
    "policies set": "policies set short ^none$ max-length=1",
    "policies delete": "policies delete short",
    "sinks assign": "sinks assign query ada",
    "vhosts declare": "vhosts declare staging",
    "vhosts delete": "vhosts delete staging",
    "queues set --override": "queues set orders stop-percent=60 --override",
    "users set": "users set ada rate-messages=9",
    "broker set": "broker set stop-percent=60",
    "users block": "users block nobody",
    "operator-policies set": "operator-policies set short ^none$ max-length=1",
}
"""Lines of commands that need arguments."""
LESS = {
    "management": (),
    "monitoring": ("management", "policymaker"),
    "policymaker": ("management", "monitoring"),
    "administrator": ("monitoring", "policymaker"),
}
"""Tags that do not suffice."""
ROWS = re.findall(
    r"^\| (management|monitoring|policymaker|administrator) \| (`.*`) \|$", PAGE.read_text(), re.MULTILINE
)
COMMANDS = [(tag, name) for tag, names in ROWS for name in re.findall(r"`([^`]+)`", names)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("tags")
    users = "".join(f'{tag} = {{ password = "secret", tags = ["{tag}"] }}\n' for tag in LESS)
    (folder / "penstock.toml").write_text(
        f'[users]\nguest = {{ password = "guest", tags = ["administrator"] }}\n{users}'
    )
    (folder / "penstock.toml").chmod(0o600)
    with serving(folder, "--config", str(folder / "penstock.toml")) as broker:
        penstock_command("declare", "queue", "orders", "--url", broker.url)
        yield broker


def test_table_has_every_tag() -> None:
    assert [tag for tag, _ in ROWS] == [*LESS]


@pytest.mark.parametrize(("tag", "name"), COMMANDS)
def test_command_needs_the_tag_of_the_table_and_no_more(served: BrokerProcess, tag: str, name: str) -> None:
    words = LINES.get(name, name).split()
    for other in LESS[tag]:
        done = penstock_command(*words, "--url", served.url.replace("guest:guest", f"{other}:secret"))
        assert "needs the tag" in done.stderr, other
    done = penstock_command(*words, "--url", served.url.replace("guest:guest", f"{tag}:secret"))
    assert "needs the tag" not in done.stderr
