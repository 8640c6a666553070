"""The picture shows depth, thresholds and who was blocked."""

from pathlib import Path

import pytest

from demo.picture import Scene, busiest, depth, draw
from demo.watch import Sample, Span, Story

SAMPLES = [
    Sample(1000 + place / 10, place, place * 3_000, True, 0, (place > 200) + (place > 215)) for place in range(300)
]
STORY = Story([(1020.0, 800_000), (1021.5, 700_000)], [Span(1020.0, 1021.5)], {"pika": [Span(1020.1, 1021.5)]})
SCENE = Scene("Flights through a queue", SAMPLES, STORY, 1000.0, 1030.0, 2**20, 800_000, 700_000)


def test_svg_names_every_mark_and_every_producer(tmp_path: Path):
    path = tmp_path / "depth.svg"
    draw(SCENE, path)
    text = path.read_text()
    assert text.lstrip().startswith("<?xml")
    for words in ("Flights through a queue", "capacity 1.00", "stop 0.76", "resume 0.67", "gate closed", "pika"):
        assert words in text


def test_png_is_a_png(tmp_path: Path):
    path = tmp_path / "depth.png"
    draw(SCENE, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_depth_at_a_crossing_is_drawn_between_the_samples():
    points = depth(SCENE)
    assert [at for at, _ in points] == sorted(at for at, _ in points)
    assert (20.0, pytest.approx(800_000 / 2**20)) in points


def test_sample_stays_on_the_side_of_a_crossing_that_the_broker_said_it_was_on():
    late = Sample(1021.6, 90, 900_000, False, 1, crossings=1)  # taken before the gate opened, answered after
    scene = Scene("", [late], STORY, 1000.0, 1030.0, 2**20, 800_000, 700_000)
    assert [at for at, _ in depth(scene)] == [20.0, 21.5, 21.5]
    assert [round(amount * 2**20) for _, amount in depth(scene)] == [800_000, 900_000, 700_000]


def test_what_is_drawn_larger_is_where_the_gate_moved_most():
    first, last = busiest(SCENE)
    assert first <= 20.0
    assert last >= 21.5


def test_run_without_samples_or_blocks_is_still_a_picture(tmp_path: Path):
    path = tmp_path / "depth.svg"
    draw(Scene("Nothing", [], Story(), 1000.0, 1004.0, 2**20, 800_000, 700_000), path)
    assert "capacity 1.00" in path.read_text()
