"""Figures of a process of this machine."""

from __future__ import annotations

import os

from penstock.client.bench.target import cpu_seconds, resident_mib

GONE = 1 << 22
"""More than Linux's highest process id."""


def test_process_has_memory_and_processor_time() -> None:
    memory, spent = resident_mib(os.getpid()), cpu_seconds(os.getpid())
    assert memory is not None
    assert memory > 5
    assert spent is not None
    assert spent > 0


def test_process_that_has_ended_has_neither_memory_nor_cpu_time() -> None:
    assert resident_mib(GONE) is None
    assert cpu_seconds(GONE) is None
