"""Setting names and values: the broker's own names, and the names that other brokers use for the same settings.

`setting_names` lists them, `setting_value` parses one value, `parse` reads the arguments of a declaration and the
settings of a pattern. Results use the broker's own names. Limits and special values are translated to the behaviour of
the broker whose name was used (docs/decisions/0011-translate-values-by-the-broker-of-their-name.md).
"""

from penstock.setting_names.features import QUORUM_DELIVERY_LIMIT, Features, check_flags, read_features, read_priority
from penstock.setting_names.parse import (
    CREDITS,
    check_scope,
    read_arguments,
    read_client_properties,
    read_consume_arguments,
    read_link_properties,
    read_pattern,
    read_settings,
)
from penstock.setting_names.setting_names import (
    ALIASES,
    OURS,
    OVERFLOW_ALIASES,
    SCOPES,
    WITHOUT_BURST,
    WITHOUT_EFFECT,
)
from penstock.setting_names.setting_value import BROKER, SettingValue

__all__ = [
    "ALIASES",
    "BROKER",
    "CREDITS",
    "OURS",
    "OVERFLOW_ALIASES",
    "QUORUM_DELIVERY_LIMIT",
    "SCOPES",
    "WITHOUT_BURST",
    "WITHOUT_EFFECT",
    "Features",
    "SettingValue",
    "check_flags",
    "check_scope",
    "read_arguments",
    "read_client_properties",
    "read_consume_arguments",
    "read_features",
    "read_link_properties",
    "read_pattern",
    "read_priority",
    "read_settings",
]
