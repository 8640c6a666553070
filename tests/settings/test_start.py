"""The table of start-up settings: their valid values."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.settings.start import AT_START, DEFAULTS, read_start


@pytest.mark.parametrize("field", AT_START)
def test_default_of_a_start_up_setting_may_be_given(field: str) -> None:
    default = getattr(DEFAULTS, field)
    if default not in (None, []) or field == "listen_tls":
        assert read_start(field.replace("_", "-"), default) == default


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("frame-max", "128KiB", 131_072),
        ("hold-bytes", "2MB", 2_000_000),
        ("transaction-timeout-s", "30 min", 1800),
        ("slow-turn-ms", "1s", 1000),
        ("amqpMinLargeMessageSize", 5, 5),
        ("listen", "127.0.0.1:1", ["127.0.0.1:1"]),
        ("http", ["127.0.0.1:1"], "127.0.0.1:1"),
    ],
)
def test_start_up_setting_has_its_own_units_and_names(name: str, value: object, stored: object) -> None:
    assert read_start(name, value) == stored


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("frame-max", 5, "frame-max must be bytes from 4096 to 2147483647 (such as 64MiB), not 5"),
        ("frame-max", "5s", "frame-max must be bytes from 4096 to 2147483647 (such as 64MiB), not '5s'"),
        ("log-format", "xml", "log-format must be text, json or qpid, not 'xml'"),
        ("vhosts", [], "vhosts must be a string or a list of at least one string, not []"),
        ("store", {"password": "x"}, "store must be a string, not a table"),
    ],
)
def test_start_up_setting_is_refused_with_its_rule(name: str, value: object, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_start(name, value)
    assert str(caught.value) == sentence
