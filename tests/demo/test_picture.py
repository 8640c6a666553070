"""The picture shows depth, thresholds and who was blocked."""

from dataclasses import replace
from pathlib import Path

import pytest

from demo.picture import NOTES, TURN, Scene, busiest, depth, draw, longest_turn
from demo.watch import Sample, Span, Story

SAMPLES = [Sample(1000 + place / 10, place, place * 3_000, True, 0) for place in range(300)]
STORY = Story([(1020.0, 800_000), (1021.5, 700_000)], [Span(1020.0, 1021.5)], {"pika": [Span(1020.1, 1021.5)]})
SCENE = Scene("Flights through a queue", SAMPLES, STORY, 1000.0, 1004.0, 1030.0, 2**20, 800_000, 700_000)


def drawn(scene: Scene, path: Path) -> str:
    draw(scene, path)
    return path.read_text()


def test_svg_names_every_mark_and_every_producer(tmp_path: Path):
    text = drawn(SCENE, tmp_path / "depth.svg")
    assert text.lstrip().startswith("<?xml")
    marks = ("capacity 1.00", "stop 0.76", "resume 0.67", "the gate is closed")
    for words in (SCENE.title, *marks, "pika", *NOTES):
        assert words in text


def test_png_is_a_png(tmp_path: Path):
    path = tmp_path / "depth.png"
    draw(SCENE, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_depth_at_a_crossing_is_drawn_between_the_samples():
    points = depth(SCENE)
    assert [at for at, _ in points] == sorted(at for at, _ in points)
    assert (20.0, pytest.approx(800_000 / 2**20)) in points


def test_closings_that_are_summed_are_lighter_and_the_legend_says_so(tmp_path: Path):
    path = tmp_path / "depth.svg"
    summed = Story([], [Span(1020.0, 1021.0, 40, 0.5)], {"pika": [Span(1020.0, 1021.0, 30, 0.25)]})
    text = drawn(replace(SCENE, story=summed), path)
    assert "the gate is closed; lighter: for a part of each second" in text
    assert "brief ones, summed" in text
    assert "brief ones, summed" not in drawn(SCENE, path)
    assert busiest(replace(SCENE, story=summed))[1] > 1021.0 - SCENE.begun


def test_part_drawn_larger_is_where_the_gate_moved_most():
    first, last = busiest(SCENE)
    assert first <= 20.0
    assert last >= 21.5


def test_part_drawn_larger_has_every_publisher_while_all_of_them_send():
    closed = [Span(begin, begin + 0.5) for begin in (1010.0, 1013.0, 1020.0, 1021.0, 1022.0)]
    blocked = {"pika": closed, "aiormq": closed[:2]}
    first, last = busiest(replace(SCENE, story=Story([], closed, blocked)))
    assert first <= 10.0
    assert 13.5 <= last < 20.0


def test_run_without_samples_or_blocks_is_still_a_picture(tmp_path: Path):
    scene = Scene("Nothing", [], Story(), 1000.0, 1004.0, 1004.0, 2**20, 800_000, 700_000)
    assert "capacity 1.00" in drawn(scene, tmp_path / "depth.svg")


def test_publisher_that_waits_for_its_turn_is_numbered_and_explained(tmp_path: Path):
    closed = [Span(1010.0, 1011.0), Span(1011.5, 1012.0)]
    blocked = {"pika": [Span(1010.1, 1011.2)], "aiormq": [Span(1010.1, 1012.6)], "others": [Span(1010, 1019, 9, 0.5)]}
    scene = replace(SCENE, story=Story([], closed, blocked))
    assert longest_turn(scene, 0.0, 30.0) == ("aiormq", pytest.approx(12.0), pytest.approx(12.6))
    assert longest_turn(scene, 0.0, 12.1) == ("aiormq", pytest.approx(11.0), pytest.approx(11.5))
    text = drawn(scene, tmp_path / "depth.svg")
    assert f">3  {TURN.format(name='aiormq')}<" in text


def test_publisher_that_waits_for_the_gate_alone_is_not_numbered(tmp_path: Path):
    assert longest_turn(SCENE, 0.0, 30.0) is None
    assert "its turn has not come" not in drawn(SCENE, tmp_path / "depth.svg")
