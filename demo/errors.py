"""What ends the demo, as one sentence for a person."""


class DemoError(Exception):
    """The demo cannot go on; the text says what and why."""
