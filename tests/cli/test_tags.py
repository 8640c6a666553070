"""The table of docs/cli.md: who may use which command, against a real broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess, penstock_command, serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
LINES = {
    "list": "list queues",
    "show": "show queue orders",
    "why QUEUE": "why orders",
    "connection close": "connection close 999",
    "top": "top --once",
    "watch": "watch orders --count 1",
    "set queue": "set queue orders stop-percent=60",
    "unset queue": "unset queue orders",
    "block queue": "block queue orders",
    "unblock queue": "unblock queue orders",
    "policies set": "policies set short ^none$ max-length=1",
    "policies clear": "policies clear short",
    "sink assign": "sink assign query ada",
    "users": "users list",
    "permissions": "permissions list",
    "limits": "limits list",
    "definitions": "definitions export",
    "declare vhost": "declare vhost staging",
    "delete vhost": "delete vhost staging",
    "set queue --override": "set queue orders stop-percent=60 --override",
    "set user": "set user ada rate-messages=9",
    "set broker": "set broker stop-percent=60",
    "block user": "block user nobody",
    "policies set --operator": "policies set short ^none$ max-length=1 --operator",
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
