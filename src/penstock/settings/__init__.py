"""Settings: the table of all settings, with the names in other brokers, and the readers of values.

Limits and special values are translated to the behaviour of the broker whose name was used
(docs/decisions/0011-translate-values-by-the-broker-of-their-name.md).
"""
