"""Conversion of other brokers' configuration files to definitions; the table is FORMATS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.cli.conversions.artemis import convert_artemis
from penstock.cli.conversions.conversion import Conversion
from penstock.cli.conversions.qpid_config import convert_qpid_config
from penstock.cli.conversions.qpid_java import convert_qpid_java

FORMATS: Final[dict[str, Callable[[bytes], Conversion]]] = {
    "artemis": convert_artemis,
    "qpid-java": convert_qpid_java,
    "qpid-config": convert_qpid_config,
}
"""Conversions by the format's name in `penstock definitions import --from`."""
