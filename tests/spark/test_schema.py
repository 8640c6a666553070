"""Schemas: columns of the source, and valid and invalid schemas of the sink."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
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
from pyspark_penstock.schema import (
    DEFAULT_COLUMNS,
    SOURCE_COLUMNS,
    arrow_schema,
    check_sink_schema,
    check_source_schema,
    columns,
    source_ddl,
)

SOURCE_DDL = source_ddl(DEFAULT_COLUMNS)
ALL = tuple(SOURCE_COLUMNS)

TYPES = {
    "string": StringType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "int": IntegerType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "array<struct<key:string,value:binary>>": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


def struct(ddl):
    return StructType([StructField(*part.split()[:1], TYPES[part.split()[1]]) for part in ddl.split(", ")])


@pytest.mark.parametrize("names", [DEFAULT_COLUMNS, ALL, ("value", "headers", "sequence")])
def test_arrow_schema_equals_the_schema_derived_by_spark(names):
    derived = to_arrow_schema(struct(source_ddl(names)), timezone="UTC")
    assert arrow_schema(names).equals(derived, check_metadata=True)


def test_columns_are_chosen_by_name_in_order():
    assert columns("value, sequence") == ("value", "sequence")
    assert columns("all") == ALL
    assert DEFAULT_COLUMNS[-1] == "value"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("value,valu", "has no column 'valu'; did you mean value?"),
        ("zzz", "has no column 'zzz'; there are queue, sequence"),
        ("", "has no column ''"),
        ("value,value", "names a column twice"),
    ],
)
def test_unknown_columns_are_refused(text, sentence):
    with pytest.raises(ValueError, match="column") as refusal:
        columns(text)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize("names", [DEFAULT_COLUMNS, ALL, ("value",)])
def test_sources_own_schema_may_be_given(names):
    check_source_schema(struct(source_ddl(names)), names)


@pytest.mark.parametrize("other", ["value binary", SOURCE_DDL.replace("priority int", "priority bigint")])
def test_another_schema_is_refused(other):
    with pytest.raises(SchemaError, match="choose columns by the option columns"):
        check_source_schema(struct(other), DEFAULT_COLUMNS)


@pytest.mark.parametrize("columns", ["value binary", "value string, routing_key string, priority int", SOURCE_DDL])
def test_sink_accepts_a_valid_schema(columns):
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
def test_sink_refuses_an_invalid_schema(columns, sentence):
    with pytest.raises(SchemaError, match="sink") as refusal:
        check_sink_schema(struct(columns))
    assert sentence in str(refusal.value)
