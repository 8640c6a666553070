"""Protocols: each translates its frames into calls of the core, and effects of the core into frames."""
