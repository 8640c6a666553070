"""The journal: durable state, and its grouping into transactions of the store."""
