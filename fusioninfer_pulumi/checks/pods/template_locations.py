"""Checks of finished pod templates: of roles, of the model's Job and of the endpoint picker.

Findings are located at the user's fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.model import ModelArgs
from fusioninfer_pulumi.checks.pods.template import (
    check_template,
    known_list,
    known_mapping,
    known_text,
)
from fusioninfer_pulumi.findings import Finding, Location, Rule, warning
from fusioninfer_pulumi.pods.credentials import find_credential_arguments, is_credential
from fusioninfer_pulumi.pods.model_files import FETCHER_PREFIX
from fusioninfer_pulumi.pods.pd_sidecar import SIDECAR
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods
from fusioninfer_pulumi.routing.routing_plan import Routing

CREDENTIAL_IN_PLAIN_TEXT = Rule("credential-in-plain-text")


def role_credentials(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Warn of credentials in the templates of a role."""
    for pod in pods.user_pods:
        yield from check_credentials(pod.path, pod.user_template)


def check_credentials(at: Location, template: Mapping[str, Any]) -> Iterator[Finding]:
    """Warn of each literal credential in the variables and arguments of a template."""
    spec = template.get("spec") or {}
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            here = (*at, "spec", key, index)
            yield from check_variables(here, container.get("env") or ())
            for field in ("command", "args"):
                words = container.get(field)
                words = words if isinstance(words, (list, tuple)) else ()
                for position, name in find_credential_arguments(words):
                    yield _credential(
                        (*here, field, position), name, "take it from a variable, $(NAME), and "
                    )


def check_variables(at: Location, variables: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Warn of each literal credential among the variables of a container."""
    for index, variable in enumerate(variables):
        name = str(variable.get("name"))
        if is_credential(name, variable.get("value")):
            yield _credential((*at, "env", index, "value"), name)


def _credential(at: Location, name: str, advice: str = "") -> Finding:
    return warning(
        CREDENTIAL_IN_PLAIN_TEXT,
        at,
        f"{name} is a credential in plain text: anyone who can read pods can read it; {advice}put "
        "it into a Secret, and name that: valueFrom: {secretKeyRef: {name: ..., key: ...}}",
    )


def pod_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Yield errors that the API server reports for a role's pods, once for both templates."""
    seen: set[tuple[str, Location]] = set()
    for pod in pods.all:
        for finding in check_template(pod.template):
            # Labels that the library generates from names are checked with the names.
            metadata = known_mapping(pod.user_template.get("metadata"))
            is_label = finding.location[:2] == ("metadata", "labels")
            if is_label and finding.location[-1] not in known_mapping(metadata.get("labels")):
                continue
            located = finding.at(*_find_role_field(pod, ctx, finding.location))
            if (located.rule, located.location) not in seen:
                yield located
            seen.add((located.rule, located.location))


def find_user_location(finished: Any, user_template: Any, location: Location) -> Location:
    """Return the location in the user's template of a location in a finished template.

    Generated list items follow the user's items, or are merged with them by name. For a generated
    value it is the user's field that contains it.
    """
    at: list[str | int] = []
    for position, part in enumerate(location):
        if isinstance(part, int):
            index = _find_user_index(finished, user_template, part)
            if index is None:
                break
            at.append(index)
            finished, user_template = finished[part], user_template[index]
        else:
            if not isinstance(user_template, Mapping):
                break
            if part not in user_template and position < len(location) - 1:
                break
            at.append(part)
            finished, user_template = known_mapping(finished).get(part), user_template.get(part)
    return tuple(at)


def _find_user_index(finished: Any, user_template: Any, index: int) -> int | None:
    """Return the index of a finished item in the user's list, None if it is generated."""
    items = known_list(user_template)
    name = known_mapping(finished[index]).get("name")
    if index < len(items) and known_mapping(items[index]).get("name") == name:
        return index
    if name is None:
        return None
    return next(
        (at for at, item in enumerate(items) if known_mapping(item).get("name") == name), None
    )


def _find_role_field(pod: Pod, ctx: Context, location: Location) -> Location:
    at = find_user_location(pod.template, pod.user_template, location)
    match location:
        case (_, str(key), int(index), *rest) if at != location:
            first = len(known_list(pod.user_template["spec"].get(key)))
            name = known_text(known_mapping(pod.spec[key][index]).get("name"))
            if index >= first and key == "topologySpreadConstraints":
                return ctx.at("topologySpread", index - first)
            if index >= first and name == SIDECAR:
                return ctx.at("kvTransfer", "sidecar", *rest)
            if index >= first and name.startswith(FETCHER_PREFIX):
                return ("model", "fetcher", *rest)
    return (*pod.path, *at)


def fetcher_and_picker_credentials(
    model: ModelArgs | None, routing: Routing | None
) -> Iterator[Finding]:
    """Warn of credentials in the model fetcher's variables and the endpoint picker's template."""
    if model is not None:
        yield from check_variables(("model", "fetcher"), model.fetcher.env)
    if routing is not None and routing.picker is not None:
        template = routing.picker.epp.args.template or {}
        yield from check_credentials((*routing.at, "endpointPicker", "template"), template)
