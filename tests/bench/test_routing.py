"""The measurement of routing: its bindings exist, and its keys reach the right queues."""

from bench import routing
from penstock.core.routing.topic_trie import topic_matches


def test_routing_key_reaches_the_queues_of_matching_patterns_once() -> None:
    patterns = routing.patterns()
    keys = [key for key, _ in zip(routing.keys(), range(50), strict=False)]
    assert len(set(keys)) == 50
    bench = routing.prepared()
    vhost = routing.vhost_of(bench)
    assert vhost.bindings.count == len(patterns) == routing.BINDINGS
    for key in keys:
        route = vhost.route(routing.EXCHANGE, key, False)
        vhost.resolve(route, {})
        matching = [at for at, each in enumerate(patterns) if topic_matches(each.split("."), key.split("."))]
        assert {queue.name for queue in route.queues} == {f"q{at % routing.QUEUES}" for at in matching}
        assert matching


def test_change_that_is_measured_leaves_nothing_behind() -> None:
    vhost = routing.vhost_of(routing.prepared())
    for source in ("amq.topic", routing.EXCHANGE):
        assert routing.changes(vhost, 10, source) > 0
        assert routing.again(vhost, 2 * routing.KNOWN, source) > 0
    assert vhost.bindings.count == routing.BINDINGS
