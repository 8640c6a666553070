"""What the data source refuses or gives up on, each as one sentence that names the thing.

::

    PenstockError
    └── SparkSourceError        everything below; what a Spark user sees at the end of a failed query
        ├── OptionError         an option is unknown, missing, misspelt or has an impossible value
        ├── SchemaError         the data frame's columns are not what a source gives or a sink takes
        ├── CursorError         the broker refuses the cursor: fenced, deleted queue, lost range
        ├── BlockError          a block from the broker is malformed
        ├── BrokerUnreachable   no connection after all retries
        └── PublishFailed       messages of a sink task were not confirmed in time

Spark shows the text of these errors inside ``StreamingQueryException``; nothing is retried by Spark in
the driver's half of a source, so an error here ends the query.
"""

from penstock.errors import PenstockError


class SparkSourceError(PenstockError):
    """The data source refuses or gives up; the text says what and why."""


class OptionError(SparkSourceError, ValueError):
    """An option is unknown, missing, misspelt, or has an impossible value."""


class SchemaError(SparkSourceError, ValueError):
    """The columns are not those that the source gives or the sink takes."""


class CursorError(SparkSourceError):
    """The broker refuses the cursor, or what the checkpoint asks for is gone."""


class BlockError(SparkSourceError):
    """A block of messages from the broker is malformed."""


class BrokerUnreachable(SparkSourceError):
    """The broker could not be reached after every retry."""


class PublishFailed(SparkSourceError):
    """Messages of a sink task were not confirmed in time, or cannot be routed."""
