"""Settings of streams: limits of what is retained, and none of the depth."""

from __future__ import annotations

import math

from penstock.core.queue.stream_settings import APPEND, resolve_stream, resolve_type
from penstock.core.queue.types import CLASSIC, STREAM
from penstock.core.settings.limits import Defaults
from penstock.flow.level import UNLIMITED
from penstock.settings.read import read_arguments
from penstock.settings.table import SEGMENT_BYTES


def test_stream_without_settings_retains_everything() -> None:
    settings = resolve_stream({}, Defaults())
    assert (settings.log_bytes, settings.max_age_s) == (UNLIMITED, math.inf)
    assert settings.stream_max_segment_size_bytes == SEGMENT_BYTES
    assert settings.thresholds.capacity.unlimited()
    assert settings.overflow is APPEND


def test_length_and_age_of_a_stream_limit_what_it_retains() -> None:
    arguments: dict[str, object] = {"x-max-length-bytes": 5000, "x-max-age": "2h"}
    settings = resolve_stream(read_arguments("s", arguments), Defaults())
    assert (settings.log_bytes, settings.max_age_s) == (5000, 7200.0)
    assert settings.length.unlimited()


def test_settings_of_a_depth_do_not_apply_to_streams() -> None:
    values = read_arguments("s", {"message-ttl": 5, "capacity-messages": 5, "dead-letter-exchange": "d", "expires": 9})
    settings = resolve_type("s", values, Defaults(), STREAM.apply_to)
    assert (settings.message_ttl_s, settings.expires_s, settings.dead_letter_exchange) == (math.inf, math.inf, None)
    assert settings.thresholds.capacity.unlimited()
    assert resolve_type("s", values, Defaults(), CLASSIC.apply_to).message_ttl_s == 0.005


def test_hold_deadline_of_a_stream_is_that_of_the_broker() -> None:
    assert resolve_stream({}, Defaults(hold_deadline_s=7)).hold_deadline_s == 7
    assert resolve_stream({}, Defaults(hold_deadline_s=0)).hold_deadline_s == math.inf
    assert resolve_stream(read_arguments("s", {"hold-deadline": 3}), Defaults()).hold_deadline_s == 3
