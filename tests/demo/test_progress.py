"""Progress lines where a terminal cannot be refreshed."""

import io

from demo.progress import Screen, Standing
from demo.watch import Sample


def test_progress_shows_depth_gate_and_blocked_producers_within_80_columns():
    standing = Standing(2**20, 336_776, 336_776, Sample(0.0, 10, 2**19, False, 4))
    assert standing.in_words() == "336,776 sent, 336,776 processed [█████░░░░░]  50% full, gate closed, 4 blocked"
    assert len(standing.in_words()) < 80


def test_output_that_is_no_terminal_gets_lines_and_no_control_characters():
    output = io.StringIO()
    screen = Screen(output)
    screen.show(Standing(2**20))
    screen.say("batch 0")
    assert output.getvalue() == f"{Standing(2**20).in_words()}\nbatch 0\n"


def test_output_that_knows_only_ascii_gets_a_bar_of_ascii():
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    screen = Screen(output)
    screen.show(Standing(2**20, sample=Sample(0.0, 10, 2**19, True, 0), bar=screen.bar))
    output.flush()
    assert b"[#####.....]" in output.buffer.getvalue()
