"""Operations, a file a noun: rows from which the control exchange, HTTP, rights and audit are derived."""
