"""The broker of each row: a function of its partition and batch, or of a value, and of nothing else."""

import subprocess
import sys

import pyarrow as pa
import pytest

from penstock.settings.lengths import SPREAD_CHARACTERS
from pyspark_penstock.errors import SchemaError
from pyspark_penstock.options import sink_options
from pyspark_penstock.spread import server_of, shares_of, spread_servers, spread_text


def options(servers, **given):
    return sink_options({"servers": servers, "queue": "bills", **given})


def shares(values, count, kind=None):
    return shares_of(pa.RecordBatch.from_pydict({"k": pa.array(values, kind)}), "k", count).to_pylist()


def test_servers_of_a_spread_have_one_order_whatever_the_option_says():
    one, other = options("b,a:5673,a"), options("a,b,a:5673")
    assert spread_servers(one) == spread_servers(other)
    assert spread_text(one) == spread_text(other) == "servers a:5672, a:5673, b:5672 by partition"
    assert spread_text(options("a,b", spreadColumn="message_id")) == "servers a:5672, b:5672 by column message_id"
    assert spread_text(options("a")) == ""


def test_spread_with_very_long_names_is_cut_and_stays_unique():
    texts = {spread_text(options(",".join(f"broker-{n}.{name}.example.com" for n in range(9)))) for name in "abc"}
    texts.add(spread_text(options("a,b", spreadColumn="ключ" * 40)))
    texts.add(spread_text(options("a,b", spreadColumn="line\nbreak")))
    assert len(texts) == 5
    assert all(len(text) <= SPREAD_CHARACTERS and text.isascii() and text.isprintable() for text in texts)


def test_partitions_of_a_batch_go_round_the_servers_and_small_batches_too():
    given = options("a,b,c")
    servers = list(spread_servers(given))
    assert [server_of(given, partition, 0) for partition in range(4)] == [*servers, servers[0]]
    assert [server_of(given, 0, batch) for batch in range(3)] == servers


def test_share_of_a_value_is_the_same_for_text_and_octets_and_null_is_a_value():
    texts = ["anna", None, "bert", "anna", ""]
    assert shares(texts, 7) == shares([None if each is None else each.encode() for each in texts], 7, pa.binary())
    assert shares(texts, 7)[1] == shares(texts, 7)[4]
    assert shares([1, 22, 333], 5, pa.int64()) == shares(["1", "22", "333"], 5)


def test_shares_are_about_equal_and_fixed_for_all_versions():
    found = shares([f"customer {number}" for number in range(10_000)], 4)
    assert all(2_300 < found.count(index) < 2_700 for index in range(4))
    assert shares(["anna", "bert", "carl", "dora"], 3) == [0, 2, 1, 2], "another value would double rows at an upgrade"


def test_share_of_a_value_is_the_same_in_every_process():
    program = (
        "import pyarrow as pa; from pyspark_penstock.spread import shares_of; "
        "print(shares_of(pa.RecordBatch.from_pydict({'k': ['a', 'b', 'c', 'd', 'e']}), 'k', 97).to_pylist())"
    )
    command = [sys.executable, "-c", program]
    found = {subprocess.run(command, check=True, text=True, capture_output=True).stdout for _ in range(2)}
    assert found == {f"{shares(list('abcde'), 97)}\n"}


def test_spread_by_a_column_that_rows_do_not_have_is_refused():
    with pytest.raises(SchemaError, match="'key', which the rows do not have: they have k"):
        shares_of(pa.RecordBatch.from_pydict({"k": ["a"]}), "key", 2)
    with pytest.raises(SchemaError, match="'k' of type double: it must be text, binary or integer"):
        shares([1.5], 2, pa.float64())
