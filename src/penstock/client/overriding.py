"""`override` of the typing module, which Python 3.11 has not: typing_extensions takes 10 ms of a first message.

Type checkers see theirs. When a program runs, it is a function that does nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import override as override
else:

    def override(method):
        """Return the method as it is."""
        return method
