"""Management: control operations, settings, definitions, views, `why`, log messages and flow-log records."""
