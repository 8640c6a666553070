"""The vocabulary of other brokers, and what it means here."""

from __future__ import annotations

import pytest

from penstock.errors import NotImplementedHere, PreconditionFailed
from penstock.names import ALIASES, NOT_YET, OURS, OVERFLOW_ALIASES, WITHOUT_EFFECT, read_arguments

NUMBERS = sorted(name for name, ours in ALIASES.items() if ours not in ("overflow", "slow-consumer-policy"))


@pytest.mark.parametrize("name", NUMBERS)
def test_an_alias_is_read_under_our_word_and_remembered_as_it_was_given(name: str) -> None:
    word = read_arguments("q", {name: 50})[ALIASES[name]]
    assert word.alias == name
    assert word.given == 50
    # Qpid C++ resumes strictly below its threshold, we at or below ours.
    assert word.number == (49 if name.startswith("qpid.flow_resume") else 50)


def test_every_word_of_ours_is_accepted_with_and_without_x() -> None:
    for word in OURS:
        value: object = {"overflow": "reject", "slow-consumer-policy": "notify"}.get(word, 5)
        assert set(read_arguments("q", {word: value})) == {word}
        assert set(read_arguments("q", {"x-" + word: value})) == {word}


@pytest.mark.parametrize("name", sorted(name for name, ours in ALIASES.items() if ours == "overflow"))
@pytest.mark.parametrize(("policy", "ours"), sorted(OVERFLOW_ALIASES.items()))
def test_an_overflow_policy_is_known_by_every_name_in_any_case_and_as_octets(name: str, policy: str, ours: str) -> None:
    assert read_arguments("q", {name: policy})["overflow"].text == ours
    assert read_arguments("q", {name: policy.upper()})["overflow"].text == ours
    assert read_arguments("q", {name: policy.encode()})["overflow"].text == ours


@pytest.mark.parametrize("value", ["50", b"50", 50.0, 50])
def test_a_whole_number_may_come_as_text_as_qpid_takes_it(value: object) -> None:
    assert read_arguments("q", {"qpid.max_count": value})["capacity-messages"].number == 50


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"x-max-length": -5}, "x-max-length=-5 is negative"),
        ({"x-max-length": "many"}, "x-max-length='many' is not a whole number"),
        ({"x-max-length": 2.5}, "x-max-length=2.5 is not a whole number"),
        ({"capacity-bytes": True}, "capacity-bytes=True is not a whole number"),
        ({"capacity-bytes": None}, "capacity-bytes=None is not a whole number"),
        ({"capacity-bytes": 1 << 62}, "is too large"),
        ({"stop-percent": 101}, "stop-percent=101 is not a percentage"),
        ({"x-overflow": "drop-tail"}, "x-overflow=drop-tail is not an overflow policy; did you mean drop-head?"),
        ({"overflow": "explode"}, "known are block"),
        ({"qpid.flow_stop_cuont": 5}, "unknown argument qpid.flow_stop_cuont=5; did you mean qpid.flow_stop_count?"),
        ({"capacity-massages": 5}, "did you mean capacity-messages?"),
        ({"x-max-lenght": 5}, "did you mean x-max-length?"),
        ({"flowResumeCapasity": 5}, "did you mean flowResumeCapacity?"),
        ({"hold-dedline": 5}, "did you mean hold-deadline?"),
        ({"x-expires": 0}, "would delete the queue at once"),
        ({"x-max-length": 5, "qpid.max_count": 6}, "qpid.max_count=6 contradicts x-max-length=5"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(arguments: dict[str, object], part: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read_arguments("orders", arguments)
    assert part in str(caught.value)
    assert "queue 'orders'" in str(caught.value)


def test_two_names_for_the_same_thing_that_agree_are_no_contradiction() -> None:
    assert read_arguments("q", {"x-max-length": 5, "qpid.max_count": 5})["capacity-messages"].number == 5


@pytest.mark.parametrize("name", sorted(NOT_YET))
def test_what_would_lose_or_reorder_messages_if_it_were_ignored_is_refused(name: str) -> None:
    with pytest.raises(NotImplementedHere, match=name):
        read_arguments("q", {name: 1})


def test_what_has_nothing_to_do_with_flow_control_is_left_alone() -> None:
    arguments: dict[str, object] = dict.fromkeys(WITHOUT_EFFECT, "lazy")
    arguments |= {"x-queue-type": "classic", "x-my-own": 5, "colour": "red"}
    assert read_arguments("q", arguments) == {}
    with pytest.raises(NotImplementedHere, match="use classic"):
        read_arguments("q", {"x-queue-type": "quorum"})
