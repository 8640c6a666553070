"""Codecs of the wire protocols. Pure: no broker, no socket, no clock."""
