"""Log ids, records of the log, and the readers of the flow log and the audit log."""
