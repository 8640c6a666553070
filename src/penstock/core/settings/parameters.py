"""Runtime parameters and global parameters: the configuration of RabbitMQ's plugins, stored and exported again.

Penstock does not act on them: it has no shovels, federation and the like.
"""

from __future__ import annotations

import json
from typing import Final

from penstock.errors import PreconditionFailed, ResourceError

PARAMETERS_MAX: Final = 10_000
"""Most parameters of a broker."""
OCTETS_MAX: Final = 16 * 1024 * 1024
"""Most octets of all their names and values, in JSON."""
VALUE_OCTETS: Final = 24 * 1024
NAME_OCTETS: Final = 255


class Parameter:
    """A parameter of a component of RabbitMQ; a global one has neither component nor virtual host."""

    def __init__(self, component: str, vhost: str, name: str, value: object) -> None:
        self.component = component
        self.vhost = vhost
        self.name = name
        self.value = value
        """A JSON value; it may hold passwords, in URIs."""

    def key(self) -> tuple[str, str, str]:
        """Return its identity."""
        return self.component, self.vhost, self.name

    def title(self) -> str:
        """Return its kind and name, for sentences."""
        if not self.component:
            return f"global parameter '{self.name}'"
        return f"parameter '{self.name}' of component '{self.component}' in vhost '{self.vhost}'"

    def octets(self) -> int:
        """Return the octets of its names and its value."""
        return len(self.component) + len(self.vhost) + len(self.name) + len(json.dumps(self.value))


class ParameterTable:
    """All parameters of one broker."""

    def __init__(self) -> None:
        self._parameters: dict[tuple[str, str, str], Parameter] = {}
        self._octets: int = 0

    def get(self, component: str, vhost: str, name: str) -> Parameter | None:
        """Return a parameter; None if there is none."""
        return self._parameters.get((component, vhost, name))

    def of(self, component: str | None = None, vhost: str | None = None) -> list[Parameter]:
        """Return parameters in order, of one component or virtual host, or of all (None); no global ones."""
        return [
            self._parameters[key]
            for key in sorted(self._parameters)
            if key[0] and component in (None, key[0]) and vhost in (None, key[1])
        ]

    def global_ones(self) -> list[Parameter]:
        """Return the global parameters, by name."""
        return [self._parameters[key] for key in sorted(self._parameters) if not key[0]]

    def check(self, parameter: Parameter) -> None:
        """Raise PreconditionFailed (406) for a parameter that is too large, ResourceError (506) at a limit."""
        for text in parameter.key():
            if len(text.encode(errors="replace")) > NAME_OCTETS:
                raise PreconditionFailed(f"{parameter.title()}: a name has at most {NAME_OCTETS} octets")
        if not parameter.name:
            raise PreconditionFailed(f"{parameter.title()}: a name has 1 to {NAME_OCTETS} octets")
        octets = parameter.octets()
        if octets > VALUE_OCTETS:
            raise PreconditionFailed(f"{parameter.title()} has {octets:,} octets; the most is {VALUE_OCTETS:,}")
        before = self._parameters.get(parameter.key())
        if before is not None:
            octets -= before.octets()
        elif len(self._parameters) >= PARAMETERS_MAX:
            raise ResourceError(f"there are {PARAMETERS_MAX:,} parameters, the most that there may be; "
                                f"{parameter.title()} was not set")  # fmt: skip
        if self._octets + octets > OCTETS_MAX:
            raise ResourceError(f"all parameters have at most {OCTETS_MAX:,} octets; {parameter.title()} was not set")

    def put(self, parameter: Parameter) -> Parameter | None:
        """Set a parameter; return the former one. Raises as `check` does."""
        self.check(parameter)
        before = self._parameters.get(parameter.key())
        self._octets += parameter.octets() - (0 if before is None else before.octets())
        self._parameters[parameter.key()] = parameter
        return before

    def drop(self, component: str, vhost: str, name: str) -> Parameter | None:
        """Remove a parameter; return it, or None if there was none."""
        parameter = self._parameters.pop((component, vhost, name), None)
        if parameter is not None:
            self._octets -= parameter.octets()
        return parameter

    def drop_vhost(self, vhost: str) -> list[Parameter]:
        """Remove the parameters of a virtual host that is deleted; return them."""
        return [
            parameter
            for parameter in self.of(None, vhost)
            if self.drop(parameter.component, vhost, parameter.name) is not None
        ]
