"""Arrivals, services, and their texts: rates, shapes, reproducibility, and errors of one sentence."""

from __future__ import annotations

import statistics

import pytest

from penstock_simulation import texts
from penstock_simulation.arrivals import Second
from penstock_simulation.services import recorded
from penstock_simulation.workload import Source, Worker, Workload

SECONDS = 200.0


def times_of(source: Source) -> list[float]:
    found = [arrival.at for arrival in Workload((source,), (), SECONDS).arrivals_of(0)]
    assert found == sorted(found)
    assert found[0] >= 0
    assert found[-1] <= SECONDS
    return found


@pytest.mark.parametrize("text", ["poisson:100", "steady:100", "bursts:100:20", "mmpp:150/2:50/2", "mmpp:200/1:0/1"])
def test_generated_arrivals_have_their_mean_rate(text: str) -> None:
    assert len(times_of(texts.source(text, 10, 1))) / SECONDS == pytest.approx(100, rel=0.15)


def test_arrivals_are_as_uneven_as_their_kind() -> None:
    """The index of dispersion of counts is 0 for steady arrivals, 1 for Poisson, about the size for bursts."""

    def dispersion(text: str) -> float:
        counts = [0] * int(SECONDS)
        for at in times_of(texts.source(text, 10, 1)):
            counts[min(int(at), len(counts) - 1)] += 1
        return statistics.variance(counts) / statistics.mean(counts)

    assert dispersion("steady:100") < 0.1
    assert dispersion("poisson:100") == pytest.approx(1, rel=0.35)
    assert dispersion("bursts:100:20") == pytest.approx(20, rel=0.35)
    assert dispersion("mmpp:190/5:10/5") > 10


def test_producers_share_the_rate_and_have_arrivals_of_their_own() -> None:
    source = texts.source("poisson:100", 10, 4)
    workload = Workload((source,) * 4, (), SECONDS)
    first, second = ([arrival.at for arrival in workload.arrivals_of(index)] for index in (0, 1))
    assert len(first) / SECONDS == pytest.approx(25, rel=0.15)
    assert first != second
    assert first == [arrival.at for arrival in workload.arrivals_of(0)]


def test_recorded_arrivals_have_the_counts_and_sizes_of_each_second() -> None:
    seconds = (Second(0.0, 30, ((100, 1),)), Second(7.0, 10, ((100, 1), (900, 3))))
    found = list(Workload((Source("recorded", seconds=seconds),), (), SECONDS).arrivals_of(0))
    assert [int(arrival.at) for arrival in found] == [0] * 30 + [7] * 10
    assert {arrival.octets for arrival in found[:30]} == {100}
    assert {arrival.octets for arrival in found[30:]} <= {100, 900}


def test_recorded_services_follow_the_rate_of_their_time() -> None:
    service = recorded([0.0, 10.0], [10.0, 1000.0])
    assert [service(5.0), service(15.0)] == [0.1, 0.001]


@pytest.mark.parametrize(
    "text", ["poisson", "poisson:0", "poisson:-1", "bursts:10", "mmpp:1/0", "mmpp", "sometimes:3", "steady:many"]
)
def test_arrivals_that_cannot_be_understood(text: str) -> None:
    with pytest.raises(texts.TextError):
        texts.source(text, 10, 1)


def test_texts_of_values() -> None:
    assert texts.values("16MiB,none,1000", texts.octets) == (16 * 2**20, None, 1000)
    assert texts.values("10s,0,500ms", texts.seconds) == (10.0, 0.0, 0.5)
    assert texts.worker("constant:100", 4) == Worker("constant", (25.0,))
    for wrong, one in (("12XB", texts.octets), ("soon", texts.seconds), ("120%", texts.percent), ("0", texts.whole)):
        with pytest.raises(texts.TextError):
            one(wrong)
