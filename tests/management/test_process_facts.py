"""Facts about the process of a broker without a server."""

from __future__ import annotations

from penstock.management.process_facts import NO_SAMPLE, ProcessFacts


def test_broker_without_a_server_has_no_facts_and_a_sample_at_once() -> None:
    facts = ProcessFacts()
    assert (facts.uptime_s(), facts.sockets(), facts.obstacle(), facts.listeners) == (0.0, 0, "", [])
    assert facts.sample().is_over
    assert facts.last == NO_SAMPLE
