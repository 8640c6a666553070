import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_penstock.errors import SchemaError
from pyspark_penstock.schema import SOURCE_DDL, arrow_schema, check_sink_schema, check_source_schema

TYPES = {
    "string": StringType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "int": IntegerType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
}


def struct(ddl):
    return StructType([StructField(*part.split()[:1], TYPES[part.split()[1]]) for part in ddl.split(", ")])


def test_arrow_schema_is_the_one_that_spark_derives():
    assert arrow_schema().equals(to_arrow_schema(struct(SOURCE_DDL), timezone="UTC"), check_metadata=True)


def test_sources_own_schema_may_be_given():
    check_source_schema(struct(SOURCE_DDL))


@pytest.mark.parametrize("other", ["value binary", SOURCE_DDL.replace("priority int", "priority bigint")])
def test_another_schema_is_refused(other):
    with pytest.raises(SchemaError, match="fixed schema"):
        check_source_schema(struct(other))


@pytest.mark.parametrize("columns", ["value binary", "value string, routing_key string, priority int", SOURCE_DDL])
def test_what_a_sink_takes(columns):
    check_sink_schema(struct(columns))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("key string", "needs a column value"),
        ("value int", "column value must be binary or string, not int"),
        ("value string, mesage_id string", "no column 'mesage_id'; did you mean message_id"),
        ("value string, zzz string", "no column 'zzz'; it takes value"),
        ("value string, message_id bigint", "column message_id must be string, not bigint"),
    ],
)
def test_what_a_sink_refuses(columns, sentence):
    with pytest.raises(SchemaError, match="sink") as refusal:
        check_sink_schema(struct(columns))
    assert sentence in str(refusal.value)
