"""The guide on backups, restores and upgrades works command by command, with a broker that it stops and starts."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.brokers import serving
from tests.support.walkthrough import Walkthrough, steps

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "backup.md"
SYSTEMCTL = """
systemctl() {
    if [ "$1" = stop ]; then
        kill "$(cat pid)"
        until python -m penstock store check --data %(data)s > /dev/null 2>&1; do sleep 0.05; done
    else
        %(python)s -m penstock serve --data %(data)s --listen %(address)s --http 127.0.0.1:0 \
            > serve.out 2>&1 < /dev/null &
        echo $! > pid
        until grep -q '^ready' serve.out; do kill -0 "$(cat pid)" || return; sleep 0.05; done
    fi
}
"""
"""In place of systemd: the broker of the data directory, as a process whose number is in the file `pid`."""


@pytest.mark.slow
def test_guide_on_backups_works_command_by_command(tmp_path: Path) -> None:
    text = PAGE.read_text()
    blocks = steps(text)
    assert len(re.findall("^ *```", text, re.MULTILINE)) == 2 * len(blocks), "every block is run"
    data = tmp_path / "data"
    places = {"/var/lib/penstock": str(data), "/backup": str(tmp_path / "backup")}
    with serving(tmp_path, "--data", str(data)) as broker:
        (tmp_path / "pid").write_text(f"{broker.pid}\n")
        systemctl = SYSTEMCTL % {
            "python": shlex.quote(sys.executable),
            "data": shlex.quote(str(data)),
            "address": f"{broker.host}:{broker.port}",
        }
        reader = Walkthrough(broker, tmp_path, places=places, shell=systemctl)
        try:
            for step in blocks:
                reader.take(step)
        finally:
            reader.run("systemctl stop penstock", [])
            reader.kill()
    assert (tmp_path / "backup" / "before-upgrade" / "messages.sqlite").exists()
