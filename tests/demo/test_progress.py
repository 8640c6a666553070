"""Progress for people: lines where none can be refreshed."""

import io

from demo.progress import Screen, Standing
from demo.watch import Sample


def test_a_standing_tells_depth_gate_and_who_is_blocked():
    standing = Standing(1_000, 2**20, 500, 400, 4, Sample(0.0, 10, 2**19, False, 3))
    words = standing.in_words()
    assert words.startswith("sent     500  processed     400 of 1,000")
    assert "[██████████░░░░░░░░░░]  50% of 1 MiB  gate closed  3 of 4 blocked" in words


def test_an_output_that_is_no_terminal_gets_lines_and_no_control_characters():
    output = io.StringIO()
    screen = Screen(output)
    screen.show(Standing(1_000, 2**20))
    screen.say("batch 0")
    assert output.getvalue() == f"{Standing(1_000, 2**20).in_words()}\nbatch 0\n"


def test_an_output_that_knows_only_ascii_gets_a_bar_of_ascii():
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    screen = Screen(output)
    screen.show(Standing(1_000, 2**20, sample=Sample(0.0, 10, 2**19, True, 0), bar=screen.bar))
    output.flush()
    assert b"[##########..........]" in output.buffer.getvalue()
