"""Long lists page by page: each object once, whatever changes between two pages, a share of a turn each."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.describe.list_kinds import QUEUES_AT_ONCE
from penstock.describe.lists import PAGE_MOST, PagedList, QueueOrder, first_steps
from penstock.describe.vhost import totals_steps
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import LOOKING_SHARE, Steps, WorkMeter, finish
from penstock.operations.definitions_export import answer_export
from penstock.operations.lists import answer_list
from penstock.operations.top import answer_top
from penstock.settings.pools import LISTS
from tests.support.control_requests import answers, request
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.operation_calls import request_of
from tests.support.turn_costs import turn_costs


class Onlooker:
    """A client that asks for pages by control operations."""

    def __init__(self, driver: BrokerDriver) -> None:
        self.driver = driver
        self.client = Dialogue(driver)
        driver.broker.vhosts["/"].declare_queue("answers", {"capacity-bytes": "none"}, False, False, None, None)

    def ask(self, operation: str, **fields: object) -> Any:
        """Return the answer to a request."""
        before = len(answers(self.driver))
        self.client.say(request(operation, **fields))
        assert len(answers(self.driver)) == before + 1
        return answers(self.driver)[-1]

    def pages(self, operation: str, **fields: object) -> Iterator[list[Any]]:
        """Yield the pages of a list."""
        after: int | None = 0
        while after is not None:
            page = self.ask(operation, after=after, **fields)
            assert len(page["items"]) <= PAGE_MOST
            yield page["items"]
            after = page["next"]


def filled(queues: int) -> BrokerDriver:
    """Return a driver with bound queues; each has a consumer."""
    driver = make_driver()
    vhost = driver.broker.vhosts["/"]
    session = Dialogue(driver).connection.engine.session(1)
    for number in range(queues):
        queue = vhost.declare_queue(f"q{number}", {}, False, False, None, None)
        vhost.bind("amq.topic", queue, None, f"q{number}", {})
        driver.broker.consume(session, Consumer(f"c{number}", session, queue, False, False, 0))
    return driver


@pytest.mark.parametrize(
    ("operation", "fields", "name"),
    [
        ("list", {"kind": "queues"}, "name"),
        ("list", {"kind": "queues", "everywhere": True}, "name"),
        ("list", {"kind": "bindings"}, "routing_key"),
        ("list", {"kind": "consumers"}, "queue"),
        ("definitions.export", {"section": "queues"}, "name"),
        ("definitions.export", {"section": "bindings"}, "routing_key"),
    ],
)
def test_object_that_stays_is_in_one_page_under_any_changes_between_pages(
    operation: str, fields: dict[str, object], name: str
) -> None:
    driver = filled(3 * PAGE_MOST)
    vhost = driver.broker.vhosts["/"]
    found: list[str] = []
    for number, page in enumerate(Onlooker(driver).pages(operation, **fields)):
        for each in page:
            named = each[name]
            found.append(named["name"] if isinstance(named, dict) else named)
        for gone in range(number * 40, number * 40 + 40):
            driver.broker.delete_queue(vhost.queues[f"q{gone}"])
        vhost.declare_queue(f"new{number}", {}, False, False, None, None)
    kept = [queue for queue in vhost.queues if queue.startswith("q")]
    times = 2 if fields.get("kind") == "bindings" else 1
    assert [queue for queue in kept if found.count(queue) != times] == []


def test_page_that_is_asked_for_again_or_after_many_others_is_found_by_its_place() -> None:
    driver = filled(2 * PAGE_MOST)
    onlooker = Onlooker(driver)
    whole = [each["name"] for each in onlooker.ask("list", kind="queues")["items"]]
    second = onlooker.ask("list", kind="queues", after=PAGE_MOST)
    assert second == onlooker.ask("list", kind="queues", after=PAGE_MOST)
    for _ in range(LISTS.limit + 1):
        Dialogue(driver).say(request("list", kind="queues", count=1))
    assert len(driver.control.lists._begun) == LISTS.limit
    assert onlooker.ask("list", kind="queues", after=10, count=5)["items"][0]["name"] == whole[10]
    assert onlooker.ask("list", kind="queues", after=10**9) == {"items": [], "next": None}


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages_of_any_size_end_with_the_last_item(size: int) -> None:
    vhost = make_driver().broker.vhosts["/"]
    groups = [list(range(3)), [], list(range(3, 4)), [], list(range(4, 12)), []]
    paged = PagedList((vhost, [str(each) for each in group]) for group in groups)
    found: list[object] = []
    while not paged.ended:
        page = finish(paged.page_steps(size, WorkMeter()))
        assert 1 <= len(page) <= size
        found += [item.subject for item in page]
        assert paged.shown == len(found)
    assert found == [str(number) for number in range(12)]


JOBS: dict[str, Callable[[BrokerDriver, int], Steps[Any]]] = {
    "list": lambda driver, last: answer_list(driver, request_of(driver, kind="queues", after=last)),
    "list of bindings": lambda driver, last: answer_list(driver, request_of(driver, kind="bindings", after=2 * last)),
    "definitions.export": lambda driver, last: answer_export(driver, request_of(driver, section="queues", after=last)),
    "top": lambda driver, _: answer_top(driver, request_of(driver, count=10)),
    "overview": lambda driver, _: totals_steps(driver),
    "page": lambda driver, _: first_steps(driver, [*driver.broker.vhosts.values()], QueueOrder(None, False, 10)),
}


@pytest.mark.once
@pytest.mark.parametrize("job", JOBS)
def test_slice_of_work_is_no_larger_with_many_queues(job: str) -> None:
    def largest(queues: int) -> tuple[int, int]:
        """Return the most octets that a slice needs, and the most units."""
        driver = make_driver()
        vhost = driver.broker.vhosts["/"]
        for number in range(queues):
            vhost.declare_queue(f"q{number}", {}, False, False, None, None)
        units = max(turn_costs(driver.broker.work, JOBS[job](driver, queues - 10), LOOKING_SHARE)[0])
        octets = 0
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in slices(driver, JOBS[job](driver, queues - 10)):
                octets = max(octets, tracemalloc.get_traced_memory()[1] - before)
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        return octets, units

    few, many = largest(2_000), largest(16_000)
    assert many[0] < few[0] + 32 * 1024
    assert many[1] <= LOOKING_SHARE + QUEUES_AT_ONCE


def slices(driver: BrokerDriver, steps: Steps[Any]) -> Iterator[None]:
    """Do a job in the slices of onlookers."""
    work = driver.broker.work
    work.limit = work.done + LOOKING_SHARE
    for _ in steps:
        yield
        work.limit = work.done + LOOKING_SHARE
    yield
