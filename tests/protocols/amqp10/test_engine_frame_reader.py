"""Frame reader: any cut of the input gives the same messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.amqp10_dialogue import data_section, sender


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_input_may_be_cut_anywhere(cuts: list[int]) -> None:
    client = sender()
    said = b"".join(client.transfer(data_section(bytes([n]) * 20)) for n in range(20))
    pos, heard = 0, []
    for size in [*cuts, len(said)]:
        heard += client.say(said[pos : pos + size])
        pos += size
    assert client.depth("q") == 20
    settled = [(each.field("first"), each.field("last")) for each in heard if each.name == "disposition"]
    numbers = [n for first, last in settled for n in range(int(str(first)), int(str(last or first)) + 1)]
    assert numbers == list(range(20))
