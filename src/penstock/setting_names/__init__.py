"""The vocabulary: every setting by our name, and every name that other brokers have for it; known nowhere else.

`words` lists them, `values` reads one value, `reading` reads the arguments of a declaration and the settings of a
pattern and gives them back under our words, with borders and special values translated into what the broker by whose
name they came would do (docs/decisions/0011-a-value-means-what-its-name-means.md).
"""

from penstock.setting_names.features import QUORUM_DELIVERY_LIMIT, Features, check_flags, read_features, read_priority
from penstock.setting_names.parse import (
    check_scope,
    read_arguments,
    read_consume_arguments,
    read_pattern,
    read_settings,
)
from penstock.setting_names.setting_names import ALIASES, OURS, OVERFLOW_ALIASES, SCOPES, WITHOUT_EFFECT
from penstock.setting_names.setting_value import BROKER, SettingValue

__all__ = [
    "ALIASES",
    "BROKER",
    "OURS",
    "OVERFLOW_ALIASES",
    "QUORUM_DELIVERY_LIMIT",
    "SCOPES",
    "WITHOUT_EFFECT",
    "Features",
    "SettingValue",
    "check_flags",
    "check_scope",
    "read_arguments",
    "read_consume_arguments",
    "read_features",
    "read_pattern",
    "read_priority",
    "read_settings",
]
