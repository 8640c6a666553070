"""Settings of queues by the kind of their values."""

from __future__ import annotations

from penstock.settings.table import ALIASES

TEXTS: dict[str, object] = {
    "overflow": "reject",
    "page-full-policy": "drop-new",
    "slow-consumer-policy": "notify",
    "cursor-max-lag-policy": "detach",
    "dead-letter-exchange": "dlx",
    "dead-letter-routing-key": "key",
    "auto-create": "true",
    "consumer-window-adaptive": "true",
}
"""What is no number."""


NUMBERS = sorted(name for name, ours in ALIASES.items() if ours not in TEXTS)
