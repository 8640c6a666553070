"""Flame graphs: boxes are as wide as their samples, and names are those of Python where mypyc has made the function."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

import penstock
from bench import flame

SCRIPT = """\
            7f01 CPyDef_queue___Queue___push
            7f02 CPyDef_driver___run_turn
            7f03 main

            7f04 send<int>
            7f02 CPyDef_driver___run_turn
            7f03 main

"""


def test_samples_are_counted_for_every_function_on_the_way() -> None:
    root = flame.folded(SCRIPT)
    turn = root.calls["main"].calls["CPyDef_driver___run_turn"]
    assert (root.samples, turn.samples) == (2, 2)
    assert {name: each.samples for name, each in turn.calls.items()} == {
        "CPyDef_queue___Queue___push": 1,
        "send<int>": 1,
    }


def test_picture_has_a_box_for_each_function_with_its_share() -> None:
    picture = ElementTree.fromstring(flame.draw(flame.folded(SCRIPT), "a & b"))
    named = {each.text for each in picture.iter() if each.tag.endswith("title")}
    assert named == {"main: 100.00%", "driver.run_turn: 100.00%", "queue.Queue.push: 50.00%", "send<int>: 50.00%"}


def test_box_too_narrow_to_be_seen_is_left_out() -> None:
    root = flame.Frame(10_000, {"wide": flame.Frame(9_999), "narrow": flame.Frame(1)})
    picture = flame.draw(root, "")
    assert "wide" in picture
    assert "narrow" not in picture


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["nonsense"], "no row of amqp091: nonsense; there are acks"),
        (["--seconds", "0"], "--seconds 0: more than 0 and at most 600 are wanted"),
        (["--output", __file__], "this is no directory"),
    ],
)
def test_bad_option_is_refused_in_one_sentence(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        flame.main(words)
    assert reason in capsys.readouterr().err


def test_machine_without_perf_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert flame.main([]) == 0
    assert capsys.readouterr().out == "Skipped: perf is not installed (Debian: apt-get install linux-perf).\n"


def perf_may_record() -> bool:
    """Tell whether perf is there, and the kernel lets this user record."""
    perf = shutil.which("perf")
    return perf is not None and subprocess.run([perf, "record", "-q", "-o", os.devnull, "true"]).returncode == 0


@pytest.mark.skipif(not perf_may_record(), reason="perf is not installed, or may not record")
def test_broker_under_load_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    form = flame.COMPILED if penstock.compiled() else flame.INTERPRETED
    assert flame.main(["acks", "--seconds", "0.5", "--form", form, "--output", str(tmp_path)]) == 0, capsys.readouterr()
    picture = (tmp_path / "profile-amqp091-acks.svg").read_text()
    assert "<rect" in picture
    assert "samples" in capsys.readouterr().out
