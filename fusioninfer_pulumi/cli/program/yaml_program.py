"""Runs a Pulumi YAML program with the Python SDK instead of Pulumi's language host.

Of functions it knows only `fn::secret`; everything else of the language but `get` works.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\["([^"]*)"\]')
_COMPONENTS = {token.replace(":index", ""): token for token in (TOKEN, PREREQUISITES)}
#: Resources that the Kubernetes provider expands to other resources.
_REMOTE = re.compile(r"kubernetes:(yaml|kustomize|helm\.sh)\b")
_CUSTOM_RESOURCE = "kubernetes:apiextensions.k8s.io:CustomResource"
_OPTIONS = {
    "provider": "provider",
    "providers": "providers",
    "parent": "parent",
    "dependsOn": "depends_on",
}
_MASKING_FUNCTION = "fn::secret"
_ONLY_PULUMI = "needs the Pulumi engine; run `pulumi preview`, or write the program in Python"


class YamlProgram:
    """A YAML program, which evaluates each value on first use."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._content = project.content
        self._values: dict[str, Any] = {}

    def run(self) -> None:
        """Register all resources, and evaluate all outputs."""
        for section in ("resources", "outputs"):
            if not isinstance(self._content.get(section) or {}, dict):
                raise RunError(f"{section} must be a mapping")
        for name in self._content.get("resources") or {}:
            self._find(name)
        self._evaluate(self._content.get("outputs"))

    def _find(self, name: str) -> Any:
        """Return a resource, a variable, a config value, or the built-in `pulumi`."""
        if name not in self._values:
            self._values[name] = self
            self._values[name] = self._define(name)
        if self._values[name] is self:
            raise RunError(f"{name} refers to itself")
        return self._values[name]

    def _define(self, name: str) -> Any:
        resources, variables = (self._content.get(key) or {} for key in ("resources", "variables"))
        if name in resources:
            return self._register(name, resources[name])
        if name in variables:
            return self._evaluate(variables[name])
        if name in self._project.config:
            return _read_config(name, self._project.config[name])
        if name == "pulumi":
            getters = (pulumi.get_organization, pulumi.get_project, pulumi.get_stack)
            return {get.__name__.removeprefix("get_"): get() for get in getters}
        raise RunError(f"${{{name}}}: the program has no resource, variable or config {name}")

    def _evaluate(self, value: Any) -> Any:
        """Replace references in a value by what they refer to."""
        if isinstance(value, list):
            return [self._evaluate(item) for item in value]
        if isinstance(value, str):
            return self._interpolate(value)
        if not isinstance(value, dict):
            return value
        for key in value:
            if str(key).startswith("fn::") and key != _MASKING_FUNCTION:
                raise RunError(f"{key} {_ONLY_PULUMI}")
        values = {key: self._evaluate(item) for key, item in value.items()}
        return Output.secret(values[_MASKING_FUNCTION]) if _MASKING_FUNCTION in values else values

    def _interpolate(self, text: str) -> Any:
        whole = _REFERENCE.fullmatch(text)
        if whole and whole[1] is not None:
            return self._resolve(whole[1])
        parts: list[Any] = []
        end = 0
        for match in _REFERENCE.finditer(text):
            value = "${" if match[1] is None else self._resolve(match[1])
            parts += [text[end : match.start()], value]
            end = match.end()
        parts.append(text[end:])
        return Output.concat(*parts) if has_output(parts) else "".join(map(str, parts))

    def _resolve(self, path: str) -> Any:
        steps = [
            int(match[2]) if match[2] else match[1] or match[3] for match in _STEP.finditer(path)
        ]
        if not steps:
            raise RunError(f"${{{path}}}: a name is missing")
        value = self._find(str(steps[0]))
        for step in steps[1:]:
            value = _get_member(value, step)
        return value

    def _register(self, name: str, resource: Any) -> pulumi.Resource:
        if not isinstance(resource, dict) or "type" not in resource:
            raise RunError(f"resources.{name}: type is missing")
        if "get" in resource:
            raise RunError(f"resources.{name}: get {_ONLY_PULUMI}")
        properties = self._evaluate(resource.get("properties") or {})
        options = self._read_options(resource.get("options") or {})
        logical = str(resource.get("name", name))
        token = str(resource["type"])
        token = _COMPONENTS.get(token, token)
        if token in _COMPONENTS.values():
            return construct_component(logical, token, properties, options)
        if token.startswith("pulumi:providers:"):
            package = token.removeprefix("pulumi:providers:")
            return pulumi.ProviderResource(package, logical, properties, options)
        if _REMOTE.match(token):
            return pulumi.ComponentResource(token, logical, properties, options, remote=True)
        if token == _CUSTOM_RESOURCE:
            token = f"kubernetes:{properties.get('apiVersion')}:{properties.get('kind')}"
        return pulumi.CustomResource(token, logical, properties, options)

    def _read_options(self, fields: Mapping[str, Any]) -> pulumi.ResourceOptions:
        """Read the options that change what is registered; others matter only in deployments."""
        return pulumi.ResourceOptions(
            **{name: self._evaluate(fields.get(key)) for key, name in _OPTIONS.items()}
        )


def _read_config(name: str, entry: Any) -> Any:
    namespace, _, key = name.rpartition(":")
    text = pulumi.Config(namespace or None).require(key)
    declaration = entry if isinstance(entry, dict) else {"default": entry}
    default = declaration.get("default", declaration.get("value"))
    kind = declaration.get("type", "string" if isinstance(default, str) else "")
    value = text if str(kind).lower() == "string" else yaml.safe_load(text)
    full_key = name if namespace else f"{pulumi.get_project()}:{name}"
    is_secret = declaration.get("secret") is True or pulumi.runtime.is_config_secret(full_key)
    return Output.secret(value) if is_secret else value


def _get_member(value: Any, step: str | int) -> Any:
    """Return a property or item; it is unknown if only a deployment sets it."""
    if isinstance(value, pulumi.Resource):
        member = getattr(value, str(step), None)
        return member if is_output(member) else make_unknown_output()
    if is_output(value):
        return value.apply(lambda resolved: _get_item(resolved, step))
    item = _get_item(value, step)
    if item is pulumi.UNKNOWN:
        raise RunError(f"no property {step}")
    return item


def _get_item(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (KeyError, IndexError, TypeError):
        return pulumi.UNKNOWN
