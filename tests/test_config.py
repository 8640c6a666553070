"""The settings file: lists of known names."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import load
from penstock.errors import ConfigError


def test_sasl_mechanisms_are_a_list_of_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[broker]\nsasl-mechanisms = ["PLAIN", "SCRAM-SHA-256"]\n')
    settings = load(path)
    assert settings.sasl_mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    path.write_text('[broker]\nsasl-mechanisms = ["PLAIN", "GSSAPI"]\n')
    with pytest.raises(ConfigError, match=r"line 2: sasl-mechanisms has the unknown 'GSSAPI'; known are EXTERNAL, SC"):
        load(path)


@pytest.mark.parametrize("name", ["min-large-message", "amqpMinLargeMessageSize"])
def test_bound_of_large_messages_has_the_name_of_artemis_too(tmp_path: Path, name: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f"[broker]\n{name} = 2000000\n")
    assert load(file).min_large_message == 2_000_000
