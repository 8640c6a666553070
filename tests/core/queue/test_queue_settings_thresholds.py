"""Stop and resume thresholds: defaults, rules and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.queue.queue_settings import resolve
from penstock.core.settings.limits import DEFAULT_RANK, Defaults
from penstock.errors import PreconditionFailed
from penstock.flow.level import OVERHEAD, UNLIMITED
from penstock.settings.read import read_arguments, read_settings
from tests.profiles import examples
from tests.support.setting_values import Marks, marks, settings_of


@pytest.mark.parametrize(
    ("capacity", "stop", "resume"),
    [
        (0, 0, 0),
        (1, 0, 0),  # Flow control must engage even here; Qpid C++ never does.
        (2, 1, 1),
        (3, 2, 2),
        (81_923, 65_538, 57_346),  # 65,538.4 is rounded, 57,346.1 is cut.
        (81_924, 65_539, 57_346),  # 65,539.2 and 57,346.8
        (81_928, 65_542, 57_349),  # 65,542.4 and 57,349.6
        (2_950_001, 2_360_001, 2_065_000),  # Qpid C++'s own example.
    ],
)
def test_stop_is_80_percent_rounded_and_resume_70_percent_cut(capacity: int, stop: int, resume: int) -> None:
    assert marks({"capacity-messages": capacity}, "messages") == (capacity, stop, resume)
    assert marks({"capacity-bytes": capacity}, "bytes") == (capacity, stop, resume)


@pytest.mark.parametrize(
    ("unit", "capacity", "stop", "resume"),
    [
        ("messages", 4, 2, 1),
        ("messages", 5, 3, 2),
        ("messages", 10, 5, 4),
        ("messages", 20, 10, 8),
        ("messages", 30, 20, 17),
        ("messages", 49, 39, 34),
        ("messages", 50, 40, 35),  # From here on 20 % is a window.
        ("messages", 100, 80, 70),
        ("bytes", 4096, 2048, 1792),
        ("bytes", 32 * 1024, 16 * 1024, 14 * 1024),
        ("bytes", 64 * 1024, 48 * 1024, 42 * 1024),
        ("bytes", 80 * 1024, 64 * 1024, 56 * 1024),
    ],
)
def test_default_stop_of_a_small_capacity_leaves_room_for_a_window_or_half_of_that(
    unit: str, capacity: int, stop: int, resume: int
) -> None:
    assert marks({f"capacity-{unit}": capacity}, unit) == (capacity, stop, resume)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"stop-messages": 9}, (10, 9, 7)),
        ({"stop-percent": 80}, (10, 8, 7)),
        ({"resume-messages": 7}, (10, 7, 7)),
        ({"resume-percent": 70}, (10, 7, 7)),
    ],
)
def test_configured_threshold_stays_unchanged_at_any_small_capacity(
    arguments: dict[str, object], expected: Marks
) -> None:
    assert marks({"capacity-messages": 10, **arguments}, "messages") == expected


@settings(max_examples=examples(500), derandomize=True, database=None)
@given(st.integers(1, 1 << 40), st.integers(0, 100), st.integers(0, 100))
def test_defaults_never_make_thresholds_that_lock_producers_out(capacity: int, stop: int, resume: int) -> None:
    defaults = Defaults(stop_percent=max(stop, resume), resume_percent=min(stop, resume))
    _, stop_at, resume_at = marks({"capacity-bytes": capacity}, "bytes", defaults)
    assert stop_at is not None
    assert resume_at is not None
    assert 0 <= resume_at <= stop_at < capacity


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"capacity-messages": 100, "stop-messages": 90}, (100, 90, 70)),
        ({"capacity-messages": 100, "stop-messages": 50}, (100, 50, 50)),  # 70 % would be above stop.
        ({"capacity-messages": 100, "resume-messages": 10}, (100, 80, 10)),
        ({"capacity-messages": 100, "resume-messages": 90}, (100, 90, 90)),  # A default gives way to what was asked.
        ({"capacity-messages": 100, "stop-messages": 100, "resume-messages": 100}, (100, 100, 100)),
        ({"capacity-messages": 100, "stop-messages": 0, "resume-messages": 0}, (100, 0, 0)),
        ({"stop-messages": 50}, (None, 50, 50)),
        ({"capacity-messages": 100, "stop-percent": 60, "resume-percent": 20}, (100, 60, 20)),
        ({"qpid.max_count": 1000, "qpid.flow_stop_count": 800, "qpid.flow_resume_count": 500}, (1000, 800, 499)),
        ({"x-max-length": 10, "x-overflow": "reject-publish"}, (None, None, None)),  # It counts what is ready.
        ({"x-max-length": 10}, (None, None, None)),
        ({"x-max-length": 10, "x-overflow": "block"}, (10, 5, 4)),
        ({"x-max-length": 10, "x-overflow": "drop-new"}, (10, None, None)),
        ({"x-max-length": 10, "qpid.policy_type": "ring_strict"}, (10, None, None)),
        ({"x-max-length": 10, "capacity-messages": 10, "x-overflow": "block"}, (10, 5, 4)),
        ({"x-max-length": 10, "capacity-messages": 20}, (20, 10, 10)),  # The length is met first.
        ({"x-max-length": 18, "capacity-messages": 20}, (20, 18, 18)),
        ({"x-max-length": 18, "capacity-messages": 20, "stop-messages": 15}, (20, 15, 14)),
        ({"x-max-length": 18, "capacity-messages": 20, "stop-percent": 50, "resume-percent": 40}, (20, 10, 8)),
        ({"x-max-length": 20, "capacity-messages": 20}, (20, 10, 8)),
        ({"x-max-length": 30, "capacity-messages": 20}, (20, 10, 8)),
        ({"x-max-length": 30, "capacity-messages": 20, "x-overflow": "drop-head"}, (20, None, None)),
        # qpid.md A3 and C1, translated: by Qpid C++'s names 0 is "none", and it resumes strictly below.
        ({"qpid.flow_stop_count": 7, "qpid.flow_resume_count": 5}, (None, 7, 4)),
        ({"qpid.flow_stop_count": 5}, (None, 5, 4)),
        ({"qpid.max_count": 1000, "qpid.flow_stop_count": 5}, (1000, 5, 4)),  # Refused there, for a default.
        ({"qpid.max_count": 1000}, (1000, 800, 699)),
        ({"qpid.max_count": 1000, "resume-percent": 70}, (1000, 800, 700)),
        ({"capacity-messages": 1000, "flow_resume_threshold": 70}, (1000, 800, 699)),
        ({"qpid.max_count": 1, "flow_resume_threshold": 0}, (1, 0, 0)),
        ({"qpid.max_count": 1000, "qpid.flow_stop_count": 0}, (1000, None, None)),
        ({"qpid.max_count": 1000, "qpid.flow_resume_count": 0}, (1000, 800, 799)),
        ({"qpid.max_count": 0, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0}, (None, None, None)),
        ({"qpid.max_count": 2, "qpid.flow_stop_count": 2}, (2, 2, 0)),
        ({"stop-messages": 0}, (None, 0, 0)),  # By our names 0 is 0: closed after each message.
        ({"capacity-messages": 100, "stop-messages": "none"}, (100, None, None)),
        ({"capacity-messages": 100, "resume-messages": "none"}, (100, 80, 80)),
        ({"capacity-messages": 100, "stop-percent": "none"}, (100, None, None)),
        ({"capacity-messages": 100, "resume-percent": "none"}, (100, 80, 80)),
        ({"capacity-messages": 1000, "stop-percent": 33.35, "resume-percent": "12.5"}, (1000, 334, 125)),
        ({"capacity-messages": 100, "resume-percent": 90}, (100, 90, 90)),
        ({"capacity-messages": 100, "stop-percent": 100, "resume-percent": 0}, (100, 99, 0)),
        ({"maximumQueueDepthMessages": 10, "queue.queueFlowResumeLimit": "80.00"}, (10, 8, 8)),
        ({"maximumQueueDepthMessages": -1}, (None, None, None)),
        ({"max-size-messages": 10, "address-full-policy": "BLOCK"}, (10, 9, 9)),  # One mark, in Artemis.
        ({"max-size-messages": 10, "stop-percent": 80}, (10, 8, 7)),
        ({"max-size-messages": 10, "resume-messages": 5}, (10, 9, 5)),
        ({"max-size-messages": -1, "address-full-policy": "DROP"}, (None, None, None)),
    ],
)
def test_thresholds_follow_from_given_arguments(arguments: dict[str, object], expected: Marks) -> None:
    assert marks(arguments, "messages") == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"qpid.max_size": 2_950_001}, (2_950_001, 2_360_001, 2_064_999)),
        ({"qpid.max_size": 2_950_001, "stop-percent": 97, "resume-percent": 73}, (2_950_001, 2_861_501, 2_153_500)),
        ({"qpid.max_size": 0}, (None, None, None)),
        ({"qpid.max_size": 0, "qpid.flow_stop_size": 700, "qpid.flow_resume_size": 460}, (None, 700, 459)),
        ({"qpid.flow_stop_size": 10_000_000}, (104_857_600, 10_000_000, 9_999_999)),  # Refused there, for a default.
        ({"qpid.max_size": 0x2FFFFFFFF}, (0x2FFFFFFFF, 10_307_921_510, 9_019_431_319)),
        ({"qpid.max_count": 0}, (104_857_600, 83_886_080, 73_400_320)),
        ({"qpid.max_count": 10}, (None, None, None)),
        ({"x-max-length": 10}, (104_857_600, 83_886_080, 73_400_320)),
        ({"x-max-length-bytes": 5000}, (104_857_600, 83_886_080, 73_400_320)),
        ({"x-max-length-bytes": 200 * 1024 * 1024}, (419_430_400, 335_544_320, 293_601_280)),  # It gives way.
        ({"x-max-length-bytes": 5000, "x-overflow": "block"}, (5000, 2500, 2187)),
        ({"stop-bytes": 200 * 1024 * 1024}, (262_144_000, 209_715_200, 183_500_800)),  # The default gives way.
        ({"resume-bytes": 200 * 1024 * 1024}, (262_144_000, 209_715_200, 209_715_200)),
        ({"capacity-bytes": "none"}, (None, None, None)),
        ({"capacity-bytes": "4KiB"}, (4096, 2048, 1792)),
        ({"qpid.max_size": 4096}, (4096, 3277, 2866)),
        ({"max-size-bytes": "10Mb"}, (10_485_760, 10_485_759, 10_485_759)),  # 1,024s, in Artemis.
        # The Java broker's capacity is where producers stop. Ours lies a quarter or 16 KiB above it.
        ({"capacity": 10_485_760, "flowResumeCapacity": 8_388_608}, (13_107_200, 10_485_760, 8_388_608)),
        ({"x-qpid-capacity": 1000, "x-qpid-flow-resume-capacity": 800}, (17_384, 1000, 800)),
        ({"capacity": 1000}, (17_384, 1000, 1000)),
        ({"capacity": 1000, "flowResumeCapacity": 0}, (17_384, 1000, 1000)),
        ({"capacity": 1000, "queue.queueFlowResumeLimit": 80}, (17_384, 1000, 800)),
        ({"capacity": 1000, "stop-bytes": 500}, (17_384, 500, 500)),
        ({"capacity": 0}, (None, None, None)),
        ({"capacity": 0, "flowResumeCapacity": 0}, (None, None, None)),
        ({"capacity": 1000, "x-overflow": "drop-head"}, (1000, None, None)),
    ],
)
def test_thresholds_in_bytes_follow_from_given_arguments(arguments: dict[str, object], expected: Marks) -> None:
    assert marks(arguments, "bytes") == expected


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (
            {"capacity-messages": 10, "stop-messages": 5, "resume-messages": 6},
            "resume-messages=6 is above stop-messages=5",
        ),
        ({"capacity-messages": 10, "stop-messages": 11}, "stop-messages=11 is above the capacity of 10 messages"),
        ({"capacity-messages": 10, "resume-messages": 11}, "resume-messages=11 is above"),
        ({"resume-messages": 5}, "resume-messages=5 has no stop threshold to go with"),
        ({"capacity-bytes": 10, "resume-messages": 5}, "has no stop threshold to go with"),
        ({"stop-percent": 20, "resume-percent": 30}, "resume-percent=30 is above stop-percent=20"),
        ({"qpid.max_count": 9, "qpid.flow_stop_count": 12}, "qpid.flow_stop_count=12 is above the capacity"),
        (
            {"capacity-messages": 100, "stop-percent": 50, "resume-messages": 60},
            "resume-messages=60 is above stop-messages=50, from stop-percent=50,",
        ),
        ({"stop-messages": "none", "resume-messages": 5}, "has no stop threshold to go with"),
        ({"capacity": 1000, "flowResumeCapacity": 1001}, "flowResumeCapacity=1001 is above capacity=1000"),
        (
            {"qpid.max_count": 10, "qpid.policy_type": "ring", "flow_stop_threshold": 50},
            "flow_stop_threshold=50 has no effect with the overflow policy drop-head (qpid.policy_type=ring)",
        ),
        ({"qpid.policy_type": "ring_strict", "resume-bytes": 5}, "resume-bytes=5 has no effect"),
        (
            {"x-max-length": 10, "stop-messages": 5},
            "stop-messages=5 has no effect with x-max-length=10, which drops the oldest messages",
        ),
        (
            {"x-max-length": 10, "capacity-messages": 20, "x-overflow": "block"},
            "capacity-messages=20 contradicts x-max-length=10; both set capacity-messages with an overflow policy",
        ),
    ],
)
def test_thresholds_that_cannot_work_are_refused_in_the_words_that_were_used(
    arguments: dict[str, object], part: str
) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        settings_of(arguments)
    assert part in str(caught.value)


@pytest.mark.parametrize("policy", ["reject", "self-destruct"])
def test_limit_by_a_name_of_qpid_cpp_has_thresholds_with_policies_that_refuse(policy: str) -> None:
    assert marks({"qpid.max_count": 10, "qpid.policy_type": policy}, "messages") == (10, 8, 6)
    assert marks({"capacity-messages": 10, "overflow": policy}, "messages") == (10, None, None)


def test_ring_has_no_thresholds_with_any_pattern_and_broker_settings() -> None:
    words = read_arguments("q", {"stop-messages": 5, "resume-percent": 20})
    weaker = {name: word.with_source("pattern", "#", "command", 5) for name, word in words.items()}
    found = resolve("q", {**read_arguments("q", {"qpid.max_count": 10, "overflow": "ring"}), **weaker}, Defaults())
    assert found.thresholds.stop.unlimited()


@pytest.mark.parametrize(
    ("arguments", "uncounted"),
    [
        ({"qpid.max_size": 1000}, OVERHEAD),
        ({"maximumQueueDepthBytes": 1000}, OVERHEAD),
        ({"max-size-bytes": 1000}, OVERHEAD),
        ({"capacity": 1000}, OVERHEAD),
        ({"qpid.flow_stop_size": 1000}, OVERHEAD),
        ({"x-max-length-bytes": 1000, "overflow": "block"}, OVERHEAD),
        ({"qpid.max_size": 1000, "stop-bytes": 500}, OVERHEAD),
        ({"capacity-bytes": 1000, "qpid.flow_stop_size": 500}, 0),
        ({"x-capacity-bytes": 1000}, 0),
        ({"qpid.max_count": 10}, 0),
        ({"max-size-bytes": 100_000, "address-full-policy": "PAGE"}, 0),
        ({}, 0),
    ],
)
def test_bytes_by_names_of_other_brokers_leave_the_overhead_out(arguments: dict[str, object], uncounted: int) -> None:
    found = settings_of(arguments).thresholds
    assert [level.uncounted for level in (found.capacity, found.stop, found.resume)] == [uncounted] * 3


def test_capacity_of_the_java_broker_as_the_default_of_all_queues() -> None:
    words = read_settings("broker", "", {"capacity": 1000})
    default = {name: word.with_source("broker", "", "command", DEFAULT_RANK + 1) for name, word in words.items()}
    found = resolve("q", default, Defaults()).thresholds
    assert (found.capacity.bytes, found.stop.bytes, found.resume.bytes) == (17_384, 1000, 1000)
    beside = resolve("q", {**default, **read_arguments("q", {"capacity-messages": 10})}, Defaults()).thresholds
    assert (beside.capacity.bytes, beside.stop.bytes) == (UNLIMITED, UNLIMITED)
