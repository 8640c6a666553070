"""Errors of the data source, each one sentence that names its object.

::

    PenstockError
    └── SparkSourceError        everything below; what a Spark user sees at the end of a failed query
        ├── OptionError         an option is unknown, missing, misspelt or has an impossible value
        ├── SchemaError         the data frame's columns are not what a source gives or a sink takes
        ├── CursorError         the broker refuses the cursor: fenced, deleted queue, lost range
        ├── BlockError          a block from the broker is malformed
        ├── BrokerUnreachable   no connection after all retries
        └── PublishFailed       messages of a sink task were not confirmed in time

Spark shows the text of these errors inside ``StreamingQueryException``. Spark retries nothing in the driver's half of a
source, so an error there ends the query.
"""

from penstock.errors import PenstockError


class SparkSourceError(PenstockError):
    """Root of the data source's errors; the text has the reason."""

    first: "SparkSourceError | None" = None
    """The same error without a traceback, which is shown before this one; see `pyspark_penstock.sentences`."""

    @property
    def __cause__(self) -> BaseException | None:
        """Cause that is shown: Spark removes any other cause from an error of a worker."""
        return super().__cause__ if self.first is None else self.first

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:
        BaseException.__dict__["__cause__"].__set__(self, cause)


class OptionError(SparkSourceError, ValueError):
    """Unknown, missing or misspelt option, or an impossible value."""


class SchemaError(SparkSourceError, ValueError):
    """Columns that differ from those of the source or sink."""


class CursorError(SparkSourceError):
    """Cursor refused by the broker, or a checkpoint whose messages are gone."""


class BlockError(SparkSourceError):
    """Malformed block of messages from the broker."""


class BrokerUnreachable(SparkSourceError):
    """Broker that could not be reached after every retry."""

    lasts = False
    """True if another attempt does not help: a wrong name, certificate or login, or a broker other than Penstock."""


class PublishFailed(SparkSourceError):
    """Messages of a sink task that were not confirmed in time, or cannot be routed."""
