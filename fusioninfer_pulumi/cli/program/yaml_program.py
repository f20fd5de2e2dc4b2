"""Runs a Pulumi YAML program with the Python SDK instead of Pulumi's language host.

Neither `get` nor functions other than `fn::secret` are supported. Resource options do not change
the objects; if they refer to other resources, as `dependsOn` does, these are registered first.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pulumi
import yaml
from pulumi import Output, RunError

from fusioninfer_pulumi.cli.program.project_files import Project
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.component.pulumi_sdk import make_unknown_output
from fusioninfer_pulumi.component.serving_prerequisites import TOKEN as PREREQUISITES
from fusioninfer_pulumi.kube.pulumi_outputs import has_output, is_output
from fusioninfer_pulumi.provider.server import construct_component

_REFERENCE = re.compile(r"(\$\$\{|\$\{[^}]*\})")  # `$${` stands for the text `${`
_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\["([^"]*)"\]')  # `.key`, `[0]` or `["key"]`
# The tokens of our components by their short form, which YAML programs may use.
_COMPONENTS = {token.replace(":index", ""): token for token in (TOKEN, PREREQUISITES)}
_SECRET_FUNCTION = "fn::secret"  # noqa: S105  # a function, not a password
_NEEDS_ENGINE = "needs the Pulumi engine; run `pulumi preview`, or write the program in Python"


class YamlProgram:
    """A YAML program, which evaluates each value on first use."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._values: dict[str, Any] = {
            "pulumi": {
                "organization": pulumi.get_organization(),
                "project": pulumi.get_project(),
                "stack": pulumi.get_stack(),
            }
        }
        evaluators = {
            "config": self._read_config,
            "variables": lambda _name, value: self._evaluate(value),
            "resources": self._register,
        }
        self._definitions = {
            name: partial(evaluate, name, value)
            for section, evaluate in evaluators.items()
            for name, value in (project.content.get(section) or {}).items()
        }

    def run(self) -> None:
        """Register all resources, and evaluate all outputs."""
        for name in self._project.content.get("resources") or {}:
            self._get_value(name)
        self._evaluate(self._project.content.get("outputs"))

    def _get_value(self, name: str) -> Any:
        """Return a resource, a variable, a config value, or the built-in `pulumi`."""
        if name not in self._values:
            if name not in self._definitions:
                raise RunError(f"the program has no resource, variable or config {name}")
            self._values[name] = self  # marks a value that is being evaluated
            self._values[name] = self._definitions[name]()
        if self._values[name] is self:
            raise RunError(f"{name} refers to itself")
        return self._values[name]

    def _evaluate(self, value: Any) -> Any:
        """Return a value with the values of its references, such as `${llm.endpoint}`."""
        if isinstance(value, list):
            return [self._evaluate(item) for item in value]
        if isinstance(value, str):
            return self._interpolate(value)
        if not isinstance(value, dict):
            return value
        for key in value:
            if str(key).startswith("fn::") and key != _SECRET_FUNCTION:
                raise RunError(f"{key} {_NEEDS_ENGINE}")
        values = {key: self._evaluate(item) for key, item in value.items()}
        return Output.secret(values[_SECRET_FUNCTION]) if _SECRET_FUNCTION in values else values

    def _interpolate(self, text: str) -> Any:
        """Return a text with values in place of references. A single reference keeps its type."""
        parts: list[Any] = [part for part in _REFERENCE.split(text) if part]
        parts = [self._resolve(part) if _REFERENCE.match(part) else part for part in parts]
        if len(parts) == 1:
            return parts[0]
        if has_output(parts):
            return Output.all(*parts).apply(lambda known: "".join(map(str, known)))
        return "".join(map(str, parts))

    def _resolve(self, reference: str) -> Any:
        if reference == "$${":
            return "${"
        steps: list[str | int] = []
        for key, index, quoted_key in _STEP.findall(reference[2:-1]):
            steps.append(int(index) if index else key or quoted_key)
        name, *members = steps or [""]
        value = self._get_value(str(name))
        for member in members:
            value = _get_member(value, member)
        return value

    def _register(self, name: str, resource: Any) -> pulumi.Resource:
        if not isinstance(resource, dict) or "type" not in resource:
            raise RunError(f"resources.{name}: type is missing")
        if "get" in resource:
            raise RunError(f"resources.{name}: get {_NEEDS_ENGINE}")
        properties = self._evaluate(resource.get("properties") or {})
        self._evaluate(resource.get("options"))  # registers the resources in `dependsOn`
        logical, token = str(resource.get("name", name)), str(resource["type"])
        token = _COMPONENTS.get(token, token)
        if token in _COMPONENTS.values():
            return construct_component(logical, token, properties, None)
        if token.startswith("fusioninfer:"):
            raise RunError(f"resources.{name}: type {token} is not one of {', '.join(_COMPONENTS)}")
        return pulumi.CustomResource(token, logical, properties)

    def _read_config(self, name: str, entry: Any) -> Any:
        """Return a config value with its declared type, or with the type of its default."""
        declaration = entry if isinstance(entry, dict) else {"default": entry}
        full_key = name if ":" in name else f"{self._project.content['name']}:{name}"
        namespace, _, key = full_key.rpartition(":")
        text = pulumi.Config(namespace).require(key)
        default = declaration.get("default", declaration.get("value"))
        kind = declaration.get("type", "string" if isinstance(default, str) else "")
        value = text if str(kind).lower() == "string" else yaml.safe_load(text)
        is_secret = declaration.get("secret") is True or full_key in self._project.encrypted
        return Output.secret(value) if is_secret else value


def _get_member(value: Any, step: str | int) -> Any:
    """Return a property or item. Properties that only a deployment sets are unknown Outputs."""
    if isinstance(value, pulumi.Resource):
        member = getattr(value, str(step), None)
        return member if is_output(member) else make_unknown_output()
    if is_output(value):
        return value.apply(
            lambda item: item.get(step, pulumi.UNKNOWN) if isinstance(item, dict) else item[step]
        )
    return value[step]
