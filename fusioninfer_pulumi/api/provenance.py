"""The sources of the parts and values of a service's generated pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import Location, find_closest

#: Fields of a role that contain pod templates: the Python name of each YAML name.
TEMPLATE_FIELDS = {
    "template": "template",
    "leaderTemplate": "leader_template",
    "workerTemplate": "worker_template",
}


class PresetValue(NamedTuple):
    """A value of a generated container, or a timeout, as `--explain` prints it.

    Attributes:
        role: Name of the role, or empty for a field of the service.
        field: Field of the role, its container or the service.
        value: The value as text.
        source: `user`, `model catalogue`, `engine release`, `capacity` or `library default`.
        reason: What in the source led to this value, such as `engine.version`.
    """

    role: str
    field: str
    value: str
    source: str
    reason: str


@dataclass(frozen=True)
class Provenance:
    """Maps the parts of final pod templates to fields of the user's spec.

    The location of a part starts with the field of its template: `("roles", 0, "template", "spec",
    "containers", 1)`. Presets, and the passes in `pods`, append generated items to the user's
    lists, so the user's items keep their indexes. A generated part that no field of the user caused
    is not in `user_fields`; it belongs to the closest field that contains it.

    Attributes:
        spec: The user's spec, before presets.
        user_fields: For parts that presets or passes added or moved, the user's field that caused
            them, such as `gpus`. Unchanged parts of the user's template are not included.
        values: Values of generated containers and timeouts, in the order of the roles.
        generated_roles: Positions of the roles whose serving containers are generated.
    """

    spec: InferenceServiceArgs
    user_fields: Mapping[Location, Location] = field(default_factory=dict)
    values: tuple[PresetValue, ...] = ()
    generated_roles: frozenset[int] = frozenset()

    @cached_property
    def _document(self) -> dict[str, Any]:
        return self.spec.model_dump(by_alias=True, exclude_unset=True, warnings=False)

    def locate(self, location: Location) -> tuple[Location, bool]:
        """Return the user's field for a part of a final template, and whether the field is set.

        Locations outside of pod templates are already the user's fields.
        """
        if len(location) < 3 or location[0] != "roles" or location[2] not in TEMPLATE_FIELDS:
            return location, True
        closest = find_closest(self.user_fields, location)
        if closest is None:
            return self.find_field(location)
        user_field, rest = closest
        return self.find_field((*user_field, *rest))

    def find_field(self, location: Location) -> tuple[Location, bool]:
        """Return the user's field at a location, and whether it is set.

        If the field is not set, return the location where the user would add it. If its parent is
        not set either, return the closest field that contains it and is set.
        """
        value: Any = self._document
        for end, part in enumerate(location):
            if isinstance(value, Mapping):
                if part not in value:
                    is_last = end == len(location) - 1
                    return (location if is_last else location[:end]), False
            elif not isinstance(value, (list, tuple)) or part not in range(len(value)):
                return location[:end], False
            value = value[part]
        return location, True
