"""Pure: JMS message selectors, the SQL subset by which a consumer chooses messages."""
