"""Routing: exchanges, bindings and the lookup from a publish to its queues."""
