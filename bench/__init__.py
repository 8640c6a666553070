"""Measurements: CPU time per message beside a peer, instructions and memory per message."""
