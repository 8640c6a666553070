"""Protocols: translators of frames into calls of the core, and of the core's effects into frames."""
