"""The guide on shards works command by command, with the node that it starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.brokers import serving
from tests.support.walkthrough import Step, Walkthrough, steps

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "shards.md"
START = "penstock serve --data data --shards 2"


def without_start(step: Step) -> Step | None:
    """Return a block without the command that starts the node, which the test has done."""
    if not step.text.startswith(f"$ {START}\n"):
        return step
    return None


@pytest.mark.slow
def test_guide_on_shards_works_command_by_command(tmp_path: Path) -> None:
    text = PAGE.read_text()
    blocks = steps(text)
    assert len(re.findall("^ *```", text, re.MULTILINE)) == 2 * len(blocks), "every block is run"
    assert START in text
    with serving(tmp_path, "--shards", "2", "--data", str(tmp_path / "data")) as node:
        assert node.ready.endswith("/data, 2 shards)")
        reader = Walkthrough(node, tmp_path, places={"127.0.0.1:5672": f"{node.host}:{node.port}"})
        try:
            for step in blocks:
                if (left := without_start(step)) is not None:
                    reader.take(left)
        finally:
            reader.kill()
        assert "Traceback" not in node.log()
