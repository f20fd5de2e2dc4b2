"""Gives every serving pod its model: volumes, fetching containers and the engine's arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.engines.added_arguments import with_arguments
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.kv_settings import SettingError
from fusioninfer_pulumi.engines.launch_types import with_words
from fusioninfer_pulumi.engines.model_arguments import (
    ServedModel,
    model_contradictions,
    model_words,
)
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.plan.completion.fetch import fetch_container
from fusioninfer_pulumi.plan.completion.model_files import ModelFiles
from fusioninfer_pulumi.plan.completion.templates import (
    Place,
    Template,
    places,
    with_container,
    with_spec,
    with_template,
)
from fusioninfer_pulumi.plan.pod_edits import (
    free_name,
    mounted,
    with_env,
    with_mounts,
    with_volumes,
)
from fusioninfer_pulumi.spec.model import ModelArgs
from fusioninfer_pulumi.spec.role import Launcher, RoleArgs

_OWN_COMMAND = (Launcher.MULTIPROCESSING, Launcher.DATA_PARALLEL)


def model_role(
    service: str, position: int, role: RoleArgs, model: ModelArgs, files: ModelFiles
) -> tuple[RoleArgs, list[Finding]]:
    """Completes one role.

    Args:
        service: Name of the service.
        position: Index of the role in the spec.
        role: The role, valid by the spec's rules.
        model: The model.
        files: Where its files lie.

    Returns:
        The role with complete pod templates, and what is to be said.
    """
    wanted = _wanted(service, model, files)
    findings: list[Finding] = []
    for place in places(position, role):
        taken = list(_taken(place, files))
        findings += taken
        if taken:
            continue
        container: Template = dict(place.container)
        if place.leads or _starts_engine(role, place):
            container, found = _told(place, wanted)
            findings += found
        role = with_template(role, place.field, _template(place, container, model, files))
    return role, findings


def _wanted(service: str, model: ModelArgs, files: ModelFiles) -> ServedModel:
    lora = model.lora
    limits = {
        "max_rank": lora.max_rank if lora else None,
        "max_adapters": lora.max_adapters if lora else None,
        "max_cpu_adapters": lora.max_cpu_adapters if lora else None,
    }
    default = None
    if files.model.startswith("/"):  # the engine would serve it under its path
        hub = model.uri.startswith("hf://")
        default = model.uri[len("hf://") :].partition("@")[0].partition(":")[0] if hub else service
    return ServedModel(
        model=files.model,
        revision=files.revision,
        name=model.name,
        default_name=default,
        adapters=files.adapters,
        limits={key: limit for key, limit in limits.items() if limit is not None},
    )


def _starts_engine(role: RoleArgs, place: Place) -> bool:
    """Whether workers of a template of their own run the engine: ray's only join a cluster."""
    if read_command(place.container).engine is None:
        return False
    if place.container.get("command") or place.container.get("args"):
        return True
    return role.multinode is not None and role.multinode.launcher in _OWN_COMMAND


def _taken(place: Place, files: ModelFiles) -> Iterator[Finding]:
    """What the template has already where the model would stand."""
    for mount in files.mounts:
        if mounted(place.container, mount["mountPath"]) is not None:
            yield error(
                f"{place.container_at}.volumeMounts",
                f"{mount['mountPath']} is where the model's files are mounted; remove it, or set "
                "model.mountPath (cache.mountPath for a cache)",
            )
    given = {each.get("name") for each in place.container.get("env") or ()}
    for variable in files.env:
        if variable["name"] in given:
            yield error(
                f"{place.container_at}.env",
                f"{variable['name']} is set by the service's model; remove one",
            )


def _told(place: Place, wanted: ServedModel) -> tuple[Template, list[Finding]]:
    """Tells the engine which model it serves."""
    container = place.container
    command = read_command(container)
    if command.engine is None:
        what = "fetched" if not wanted.model.startswith("/") else f"read from {wanted.model}"
        return dict(container), [
            warning(
                place.command_at,
                "the container's program is neither vLLM nor SGLang: it is not told which model to "
                f"serve, which has to be {what}",
            )
        ]
    said = [error(place.command_at, text) for text in model_contradictions(command, wanted)]
    if said:
        return dict(container), said
    words, positional = model_words(command, wanted)
    try:
        return with_words(container, with_arguments(container, words, model=positional)), []
    except SettingError as problem:
        return dict(container), [
            error(
                place.command_at,
                f"the model cannot be named in it: {problem}; write the command as a list",
            )
        ]


def _template(
    place: Place, container: Mapping[str, Any], model: ModelArgs, files: ModelFiles
) -> Template:
    spec = place.template["spec"]
    volume = {name: free_name(name, spec.get("volumes")) for name in files.volumes}
    mounts = [{**each, "name": volume[each["name"]]} for each in files.mounts]
    complete = with_mounts(with_env(container, files.env), mounts)
    added = [{"name": volume[name], **source} for name, source in files.volumes.items()]
    fields: dict[str, Any] = {}
    if files.fetched:
        everybody = [*(spec.get("initContainers") or ()), *spec["containers"]]
        fetchers = [
            fetch_container(
                model,
                free_name(f"fetch-model-{index}", everybody),
                model.fetcher.command,
                [(source, folder)],
                [{**mount, "name": volume[mount["name"]]}],
            )
            for index, (source, folder, mount) in enumerate(files.fetched)
        ]
        fields["initContainers"] = [*(spec.get("initContainers") or ()), *fetchers]
    if model.image_pull_secrets:
        given = list(spec.get("imagePullSecrets") or ())
        names = {each.get("name") for each in given}
        more = [{"name": name} for name in model.image_pull_secrets if name not in names]
        fields["imagePullSecrets"] = [*given, *more]
    template = with_container(place.template, str(container["name"]), lambda _: complete)
    built = with_spec(template, **fields)
    return {**built, "spec": with_volumes(built["spec"], added)}
