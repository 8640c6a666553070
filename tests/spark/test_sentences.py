"""Errors that leave the data source begin with their sentence."""

import pickle
import traceback

import pytest

from penstock.client.errors import ControlError
from pyspark_penstock.errors import BlockError, CursorError
from pyspark_penstock.sentences import sentence_first, sentence_of

SENTENCE = "cursor 'c' was refused: no queue 'x'"


@sentence_first
class Source:
    def plan(self):
        try:
            raise ControlError(404, "not-found", "no queue 'x'")
        except ControlError as refusal:
            raise CursorError(SENTENCE) from refusal

    def read(self):
        yield 1
        raise BlockError(SENTENCE)

    def fails(self):
        raise KeyError("x")

    def doubles(self, number: int) -> int:
        """Return twice a number."""
        return 2 * number


def shown(error: BaseException) -> str:
    return "".join(traceback.TracebackException(type(error), error, error.__traceback__, compact=True).format())


def test_error_begins_and_ends_with_the_sentence():
    with pytest.raises(CursorError) as raised:
        Source().plan()
    lines = shown(raised.value).strip().split("\n")
    assert lines[0] == lines[-1] == f"pyspark_penstock.errors.CursorError: {SENTENCE}"
    assert "Traceback (most recent call last):" in lines[1:-1]


def test_sentence_stays_first_where_spark_takes_the_cause_away():
    with pytest.raises(CursorError) as raised:
        Source().plan()
    raised.value.__cause__ = None
    copied = pickle.loads(pickle.dumps(raised.value))
    for error in (raised.value, copied):
        assert shown(error).startswith(f"pyspark_penstock.errors.CursorError: {SENTENCE}\n")
    other = CursorError("without a cause")
    assert other.__cause__ is None
    other.__cause__ = KeyError("x")
    assert isinstance(other.__cause__, KeyError)


def test_error_of_an_iterator_begins_with_its_sentence_too():
    rows = Source().read()
    assert next(rows) == 1
    with pytest.raises(BlockError) as raised:
        next(rows)
    assert shown(raised.value).startswith(f"pyspark_penstock.errors.BlockError: {SENTENCE}\n")


def test_errors_of_other_classes_and_results_are_unchanged():
    with pytest.raises(KeyError) as raised:
        Source().fails()
    assert raised.value.__cause__ is None
    assert Source().doubles(2) == 4
    assert Source.doubles.__doc__ == "Return twice a number."


def test_sentence_is_found_in_a_text_of_spark():
    text = "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_EXCEPTION] Failed: Traceback\n  File\n"
    assert sentence_of(f"{text}pyspark_penstock.errors.CursorError: {SENTENCE}\n SQLSTATE: 38000") == SENTENCE
    assert sentence_of(f"{text}pyspark_amqp.errors.SpoolUnusable: {SENTENCE}\n SQLSTATE: 38000") == SENTENCE
    assert sentence_of("org.apache.spark.SparkException: Job aborted.\n\tat x") == (
        "org.apache.spark.SparkException: Job aborted."
    )
