"""The pictures of flow control: a short run is drawn, and the pages' pictures are small and of these runs."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench import pictures

PAGE = Path(__file__).resolve().parents[2] / "docs" / "inside" / "pictures.md"


def test_short_run_is_drawn_and_never_passes_its_capacity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pictures.main(["gate", "--folder", str(tmp_path), "--scale", "0.3"]) == 0
    found = re.search(r"^gate: at the end depth \d+; highest (\d+); ", capsys.readouterr().out)
    assert 0 < int(found[1]) <= 500
    ElementTree.fromstring((tmp_path / "gate.svg").read_text())


def test_picture_of_each_run_is_small_and_on_the_page() -> None:
    shown = set(re.findall(r"\.\./pictures/([\w-]+)\.svg", PAGE.read_text()))
    assert shown == set(pictures.RUNS)
    for name in shown:
        picture = (pictures.FOLDER / f"{name}.svg").read_text()
        assert len(picture) < 20_000
        ElementTree.fromstring(picture)


def test_unknown_picture_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        pictures.main(["gates"])
    assert "no picture gates; there are gate, deadline, two-queues, fair" in capsys.readouterr().err
