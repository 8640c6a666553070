"""Settings: the table of all, with the names that other brokers use, and what is read by it.

Limits and special values are translated to the behaviour of the broker whose name was used
(docs/decisions/0011-translate-values-by-the-broker-of-their-name.md).
"""
