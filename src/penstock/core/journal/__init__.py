"""The journal: which state is durable, and how it is grouped into transactions of the store."""
