"""Changes the pod templates of a role, which are never changed in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.engines.command import serving_container
from fusioninfer_pulumi.findings import join

Mapped = Mapping[str, Any]
Template = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """A pod template of a role.

    Attributes:
        field: Name of its field in the model.
        at: Its path in the document.
        template: The template.
        container: Its serving container.
        container_at: Path of the serving container.
        leads: Whether it is the template of leaders, or of all pods.
    """

    field: str
    at: str
    template: Mapped
    container: Mapped
    container_at: str
    leads: bool

    @property
    def command_at(self) -> str:
        """Path of the words that start the engine."""
        has_args = self.container.get("args") or not self.container.get("command")
        return f"{self.container_at}.{'args' if has_args else 'command'}"


def places(position: int, role: RoleArgs) -> Iterator[Place]:
    """The templates of a role, the leaders' first.

    Args:
        position: Index of the role in the spec.
        role: The role, valid by the spec's rules.
    """
    leading = role.leader_template or role.template
    name = role.container
    if leading is not None:
        name = name or str(serving_container(leading, None)["name"])
    fields = ("template", "leader_template", "worker_template")
    for field in fields:
        template = getattr(role, field)
        if template is None:
            continue
        container = serving_container(template, name)
        alias = RoleArgs.model_fields[field].alias or field
        at = join("roles", position, alias)
        index = template["spec"]["containers"].index(container)
        yield Place(
            field,
            at,
            template,
            container,
            f"{at}.spec.containers[{index}]",
            leads=field != "worker_template",
        )


def with_template(role: RoleArgs, field: str, template: Mapped) -> RoleArgs:
    """A role with one of its templates replaced; what is known to be valid is not checked again."""
    return role.model_copy(update={field: template})


def with_container(template: Mapped, name: str, change: Callable[[Mapped], Mapped]) -> Template:
    """A template with one of its containers changed."""
    spec = template["spec"]
    return with_spec(
        template,
        containers=[
            dict(change(each)) if each["name"] == name else each for each in spec["containers"]
        ],
    )


def with_spec(template: Mapped, **fields: Any) -> Template:
    """A template with fields of its pod spec replaced."""
    return {**template, "spec": {**template["spec"], **fields}}
