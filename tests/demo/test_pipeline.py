"""The error that a failure of Spark leaves for a person."""

from demo.pipeline import cause

TOLD = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: no luck
: org.apache.spark.SparkException: [MALFORMED_RECORD] Malformed records are detected.
\tat org.apache.spark.sql.Somewhere.java:1
Caused by: org.apache.spark.SparkException: a task failed
\tat org.apache.spark.sql.Somewhere.java:2
Caused by: org.apache.spark.SparkRuntimeException: [MALFORMED_CSV_RECORD] Malformed CSV record: garbage
\tat org.apache.spark.sql.Somewhere.java:3

=== Streaming Query ===
Logical Plan: ...
"""


def test_deepest_cause_of_a_failure_is_reported():
    expected = "org.apache.spark.SparkRuntimeException: [MALFORMED_CSV_RECORD] Malformed CSV record: garbage"
    assert cause(TOLD) == expected


def test_failure_without_causes_is_reported_by_its_first_line():
    assert cause("\npenstock: no queue 'flights'\nmore\n") == "penstock: no queue 'flights'"


def test_failure_without_words_is_still_a_sentence():
    assert cause("") == "no reason was given"
