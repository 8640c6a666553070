"""Markers for type checkers that cost nothing at run time: `typing_extensions` takes 12 ms to import.

This module stays interpreted: compiled modules have their markers removed, and still import the names.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):
        """Mark a method that overrides a method of a base class (PEP 698)."""
        return method


__all__ = ["override"]
