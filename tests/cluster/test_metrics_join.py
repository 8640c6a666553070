"""Join of metrics: families in one piece with one head, labels of sources, and sources that end too early."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from penstock.cluster.metrics_join import OF_OBJECTS, OF_SUMS, BadAnswer, Order, Source, joined, order_of
from penstock.cluster.shard_http import ShardCut
from penstock.describe.exposition import Exposition, Family, label
from penstock.describe.metrics import Scrape, Selection
from penstock.describe.node import NodeFigures
from tests.support.halves import HOSTS, Scene

A, B, C = Family("a", "First"), Family("b_total", "Second"), Family("c", "Third")
ORDER = order_of([[A, B, C]])


def answer(families: Iterable[tuple[Family, dict[str, object]]], openmetrics: bool = False) -> str:
    out = Exposition(openmetrics)
    for family, samples in families:
        out.begin(family)
        for labels, value in samples.items():
            out.add(family.name, labels, value)
    out.end()
    return out.take()


async def pieces(text: str, size: int, error: Exception | None = None) -> AsyncIterator[bytes]:
    data = text.encode()
    for start in range(0, len(data), size):
        yield data[start : start + size]
    if error is not None:
        raise error


class Joining:
    """Join of texts, with the failures told."""

    def __init__(self, size: int = 7, order: Order | None = None, without: Iterable[str] = ()) -> None:
        self.size = size
        self.order = ORDER if order is None else order
        self.without = [each.encode() for each in without]
        self.failed: list[str] = []

    async def of(self, *texts: str, error: Exception | None = None) -> str:
        """Join texts of the shards 1, 2 and so on; the last one ends with an error."""
        sources: list[Source] = []
        for number, text in enumerate(texts, 1):
            its = error if number == len(texts) else None
            shard = label("shard", str(number)).encode()
            source = Source(shard, pieces(text, self.size, its), self.order, self.without)
            await source.begin()
            sources.append(source)
        parts = [part async for part in joined(sources, lambda source, why: self.failed.append(str(why)))]
        return b"".join(parts).decode()


@pytest.mark.parametrize("size", [1, 2, 5, 16, 1000])
async def test_families_of_all_sources_are_joined_under_one_head(size: int) -> None:
    first = answer([(A, {"": 1}), (B, {'x="1"': 2, 'x="2"': 3}), (C, {"": 4})])
    second = answer([(B, {'x="1"': 5}), (C, {"": 6})])
    assert await Joining(size).of(first, second) == (
        "# HELP a First\n# TYPE a gauge\n"
        'a{shard="1"} 1\n'
        "# HELP b_total Second\n# TYPE b_total counter\n"
        'b_total{shard="1",x="1"} 2\nb_total{shard="1",x="2"} 3\nb_total{shard="2",x="1"} 5\n'
        "# HELP c Third\n# TYPE c gauge\n"
        'c{shard="1"} 4\nc{shard="2"} 6\n'
    )


async def test_label_values_with_braces_and_spaces_stay_as_they_are() -> None:
    text = answer([(A, {label("queue", '} {a="b" # HELP \n c'): 1})])
    found = list(text_string_to_metric_families(await Joining(3).of(text)))
    assert found[0].samples[0].labels == {"shard": "1", "queue": '} {a="b" # HELP \n c'}


async def test_family_without_samples_has_its_head_once() -> None:
    assert await Joining().of(answer([(A, {}), (C, {})]), answer([(A, {})])) == (
        "# HELP a First\n# TYPE a gauge\n# HELP c Third\n# TYPE c gauge\n"
    )


async def test_families_that_are_left_out_are_left_out_of_all_sources() -> None:
    first = answer([(A, {"": 1}), (B, {"": 2}), (C, {"": 3})])
    for size in (1, 4, 1000):
        assert await Joining(size, without=["a", "c"]).of(first, first) == (
            '# HELP b_total Second\n# TYPE b_total counter\nb_total{shard="1"} 2\nb_total{shard="2"} 2\n'
        )


async def test_unknown_families_keep_their_place_behind_the_last_known_one() -> None:
    more, other = Family("process_x", "x"), Family("python_y", "y")
    first = answer([(A, {"": 1}), (more, {"": 1}), (other, {"": 1}), (C, {"": 1})])
    second = answer([(A, {"": 2}), (more, {"": 2}), (other, {"": 2}), (B, {"": 2})])
    names = [line.split()[2] for line in (await Joining().of(first, second)).splitlines() if line.startswith("# HELP")]
    assert names == ["a", "process_x", "python_y", "b_total", "c"]


async def test_families_out_of_order_get_no_second_head() -> None:
    text = await Joining().of(answer([(C, {"": 1}), (A, {"": 1})]), answer([(A, {"": 2}), (C, {"": 2})]))
    heads = [line for line in text.splitlines() if line.startswith("# HELP")]
    assert len(heads) == len(set(heads)) == 2
    assert len(text.splitlines()) == 8


@pytest.mark.parametrize(("cut", "why"), [("", "cut"), ("a 2", "the metrics end within a line")])
async def test_source_that_ends_early_keeps_its_whole_samples(cut: str, why: str) -> None:
    joining = Joining()
    head = "# HELP a First\n# TYPE a gauge\n"
    error = None if cut else ShardCut("cut")
    assert await joining.of(answer([(A, {"": 1}), (C, {"": 1})]), f'{head}a{{x="2"}} 2\n{cut}', error=error) == (
        head + 'a{shard="1"} 1\na{shard="2",x="2"} 2\n# HELP c Third\n# TYPE c gauge\nc{shard="1"} 1\n'
    )
    assert joining.failed == [why]


@pytest.mark.parametrize("text", ["<html>\n</html>\n", "a 1\n", "# TYPE a gauge\n# HELP a First\n", "# HELP a First\n"])
async def test_text_that_is_no_metrics_is_refused(text: str) -> None:
    with pytest.raises(BadAnswer, match="a family of metrics begins without its description and kind"):
        await Joining().of(text)


async def test_line_without_an_end_is_refused() -> None:
    with pytest.raises(BadAnswer, match="a line of metrics has more than 65,536 bytes"):
        await Joining(10_000).of("# HELP a " + "x" * 100_000)


# Answers of brokers


def scrapes(openmetrics: bool, path: str) -> list[str]:
    """Return the answers of two brokers with a virtual host each."""
    texts: list[str] = []
    for host in HOSTS:
        driver, figures = Scene([host]).driver, NodeFigures()
        figures.connections_opened = driver.connected
        scrape = Scrape(driver, figures, openmetrics)
        texts.append("".join(scrape.aggregated() if path == "/metrics" else scrape.per_object(OF_PATH[path])))
    return texts


OF_PATH = {
    "/metrics/per-object": Selection(1000),
    "/metrics/detailed": Selection(1000, frozenset(["queue_coarse_metrics", "channel_metrics"]), None, True),
}


@pytest.mark.parametrize("path", ["/metrics", *OF_PATH])
@pytest.mark.parametrize("openmetrics", [False, True])
async def test_answers_of_two_brokers_have_the_samples_of_both(openmetrics: bool, path: str) -> None:
    texts = scrapes(openmetrics, path)
    order = OF_SUMS if path == "/metrics" else OF_OBJECTS
    text = await Joining(1000, order).of(*texts) + ("# EOF\n" if openmetrics else "")
    read = openmetrics_families if openmetrics else text_string_to_metric_families
    found = list(read(text))
    names = [family.name for family in found]
    assert len(names) == len(set(names))
    for number, each in enumerate(texts, 1):
        its = [sample for family in read(each) for sample in family.samples]
        shard = {"shard": str(number)}
        ours = [s for family in found for s in family.samples if s.labels["shard"] == str(number)]
        assert [(s.name, {**s.labels, **shard}, s.value) for s in its] == [(s.name, s.labels, s.value) for s in ours]


@pytest.mark.parametrize("path", ["/metrics", *OF_PATH])
@pytest.mark.parametrize("openmetrics", [False, True])
def test_order_of_families_is_that_of_the_answers(openmetrics: bool, path: str) -> None:
    order = OF_SUMS if path == "/metrics" else OF_OBJECTS
    for text in scrapes(openmetrics, path):
        names = [line.split()[2].encode() for line in text.splitlines() if line.startswith("# HELP")]
        assert [name for name in names if name not in order] == []
        assert sorted(names, key=order.__getitem__) == names
