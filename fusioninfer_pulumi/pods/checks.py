"""Volumes, ports and credentials of finished pods."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.engine import CONFIG_FLAG, PORT_FLAG, EngineCommand
from fusioninfer_pulumi.findings import Finding, Location, error, join, shown, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import shared_memory
from fusioninfer_pulumi.kube.resources import is_accelerator
from fusioninfer_pulumi.pods.sidecar import own_sidecar
from fusioninfer_pulumi.pods.templates import places
from fusioninfer_pulumi.topology.role import RolePlan

#: Fields of core/v1 `VolumeSource` in Kubernetes 1.36.
_NAMES = """
    awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir
    ephemeral fc flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath image iscsi nfs
    persistentVolumeClaim photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret
    storageos vsphereVolume
"""
_SOURCES = frozenset(_NAMES.split())


def volume_findings(role: RoleArgs, plan: RolePlan) -> Iterator[Finding]:
    """Checks the pods of a role.

    Args:
        role: The role with complete pod templates.
        plan: Its plan.

    Yields:
        Errors about volumes and mounts that no API server takes.
    """
    for place in places(plan.position, role):
        spec = place.template["spec"]
        ours: list[str] = []
        if plan.wiring is not None and plan.wiring.shared_memory is not None:
            added = shared_memory(spec, place.container, plan.wiring.shared_memory)
            ours = [] if added is None else [added[0]["name"]]
        yield from pod_volume_findings(f"{place.at}.spec", spec, ours)


def pod_volume_findings(
    at: str, spec: Mapping[str, Any], others: Collection[str] = ()
) -> Iterator[Finding]:
    """Checks the volumes of one pod, and that its containers mount no others.

    Args:
        at: Where the pod spec stands.
        spec: The pod spec.
        others: Names of volumes that the pod gets besides.

    Yields:
        Errors about what no API server takes.
    """
    listed = spec.get("volumes") or ()
    names: list[Any] = []
    for index, volume in _mappings(listed):
        here, name = f"{at}.volumes[{index}]", volume.get("name")
        if isinstance(name, str) and name in names:
            yield error(f"{here}.name", f"{shown(name)} names two volumes of the pod")
        names.append(name)
        sources = [key for key, value in volume.items() if key in _SOURCES and value is not None]
        if len(sources) > 1:
            yield error(here, f"takes one source, got {' and '.join(sources)}; remove one of them")
    if not isinstance(listed, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return  # an Output, or for the API server to judge
    known = {*names, *others}
    for field in ("initContainers", "containers"):
        for index, container in _mappings(spec.get(field)):
            for key in ("volumeMounts", "volumeDevices"):
                yield from _mounts(f"{at}.{field}[{index}].{key}", container.get(key), known)


def _mounts(at: str, mounts: Any, known: Collection[str]) -> Iterator[Finding]:
    for index, mount in _mappings(mounts):
        name = mount.get("name")
        if isinstance(name, str) and name not in known:
            have = f"; it has {', '.join(sorted(known))}" if known else ""
            yield error(
                f"{at}[{index}].name",
                f"the pod has no volume {shown(name)}{have}: add it to its volumes",
            )


def _mappings(items: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The mappings of a list with their indexes; anything else is checked by others."""
    for index, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        if isinstance(item, Mapping):
            yield index, item


_REACHED = "probe, Service and pool would reach a port on which nothing listens"


def port_findings(
    plan: RolePlan, template: Mapping[str, Any], container: Mapping[str, Any], at: str
) -> Iterator[Finding]:
    """Compares the port of a role with the one that its engine listens on.

    A container beside the engine that listens on the port, such as a proxy of the user's, is
    what `port` is for: then nothing is said.

    Args:
        plan: The role, without a sidecar of ours before its engine.
        template: Pod template of its leaders.
        container: Their serving container, as written.
        at: Field that holds the command line.

    Yields:
        An error where the role states another port than the command line; where the engine's
        default decides, an error too if the program that runs is known, else a warning.
    """
    command, port, stated = read_command(container), plan.serving.port, plan.args.port
    engine, given = command.engine, command.port
    listens = given or _default(command)
    if engine is None or listens is None or listens == port:
        return
    if own_sidecar(template, str(container["name"]), port) is not None:
        return
    field = join("roles", plan.position, "port")
    if given is not None:
        say = error if command.readable else warning
        told = f"{PORT_FLAG} {given} of the engine"
        if stated is not None:
            yield say(field, f"{port} contradicts {told} ({at}): {_REACHED}; remove one of them")
        else:
            yield say(at, f"{told} is not the port {port} of the role: {_REACHED}")
        return
    told = f"{engine.name} listens on {listens} without {PORT_FLAG}"
    way_out = f"{_REACHED}; add {PORT_FLAG}={port} to its arguments"
    if stated is not None:
        # The entrypoint of somebody's own image may choose a port by itself.
        say = error if command.program or command.image.stock else warning
        yield say(field, f"{port} is not where the engine listens: {told}: {way_out}")
    else:
        yield warning(at, f"the role is reached on port {port}, but {told}: {way_out}")


def _default(command: EngineCommand) -> int | None:
    """Where the engine listens by itself, None where something unread may say otherwise."""
    if command.engine is None or not command.readable or command.has(PORT_FLAG, CONFIG_FLAG):
        return None
    return command.engine.default_port


def declared_port_findings(position: int, role: RoleArgs) -> Iterator[Finding]:
    """Looks at all containers of a role's pods.

    Args:
        position: Index of the role in the spec.
        role: The role as the user wrote it.

    Yields:
        One warning for each number that a container declares again for the same protocol.
    """
    for place in places(position, role):
        for field in ("initContainers", "containers"):
            for index, container in enumerate(place.template["spec"].get(field) or ()):
                yield from _twice(f"{place.at}.spec.{field}[{index}].ports", container)


def _twice(at: str, container: Mapping[str, Any]) -> Iterator[Finding]:
    seen: set[tuple[int, str]] = set()
    for index, port in enumerate(container.get("ports") or ()):
        number, protocol = port["containerPort"], port.get("protocol") or "TCP"
        if (number, protocol) in seen:
            yield warning(
                f"{at}[{index}]", f"{number}/{protocol} is declared twice; remove one of the two"
            )
        seen.add((number, protocol))


# Variables that hold a credential whatever it looks like: those of model hubs and clouds, and the
# endings that such names have by habit.
_VARIABLE = re.compile(
    r"(HF|HUGGING_?FACE(_?HUB)?|GITHUB)(_HUB)?(_API)?_TOKEN"
    r"|MODELSCOPE_SDK_TOKEN|AWS_SESSION_TOKEN|AZURE_STORAGE_(KEY|SAS_TOKEN|CONNECTION_STRING)"
    r"|(\w+_)?(API|AUTH|ACCESS|BEARER)_TOKEN"
    r"|(\w+_)?(API|SECRET|SECRET_ACCESS|PRIVATE)_KEY"
    r"|(\w+_)?(PASSWORD|PASSWD|CLIENT_SECRET)",
    re.IGNORECASE,
)
# What credentials look like, wherever they stand: Hugging Face, AWS, GitHub, NVIDIA, OpenAI, PEM.
_LOOK = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|nvapi-[\w-]{20,}"
    r"|sk-[A-Za-z0-9_-]{20,})|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_FLAG = re.compile(r"--(api-key|admin-api-key|hf-token)(=(?P<value>.*))?", re.DOTALL)
_ADVICE = "put it into a Secret, and name that: valueFrom: {secretKeyRef: {name: ..., key: ...}}"


def role_credentials(position: int, role: RoleArgs) -> Iterator[Finding]:
    """Checks the templates of a role that runs pods; see `credential_findings`."""
    templates = {
        "template": role.template,
        "leaderTemplate": role.leader_template,
        "workerTemplate": role.worker_template,
    }
    for field, template in templates.items():
        if template is not None:
            yield from credential_findings(join("roles", position, field), template)


def credential_findings(at: str, template: Mapping[str, Any]) -> Iterator[Finding]:
    """Finds literal credentials among the variables and arguments of a template's containers.

    Args:
        at: Field that holds the template.
        template: The template, or a part of one.

    Yields:
        One warning each; what refers to a variable is no literal.
    """
    spec = template.get("spec") or {}
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            here = f"{at}.spec.{key}[{index}]"
            yield from variable_findings(here, container.get("env") or ())
            yield from _arguments(here, container)


def variable_findings(at: str, variables: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Finds literal credentials among the variables of a container that stands at `at`."""
    for index, variable in enumerate(variables):
        name = str(variable.get("name"))
        value: Any = variable.get("value")
        if not _is_literal(value):
            continue
        if _VARIABLE.fullmatch(name) or _LOOK.search(value):
            yield warning(
                f"{at}.env[{index}].value",
                f"{name} is a credential in plain text: everybody who may read pods reads it; "
                f"{_ADVICE}",
            )


def _arguments(at: str, container: Mapping[str, Any]) -> Iterator[Finding]:
    for key in ("command", "args"):
        held = container.get(key)
        words = held if isinstance(held, (list, tuple)) else ()
        for index, word in enumerate(words):
            name = _named(word, words[index + 1] if index + 1 < len(words) else None)
            # What stands behind a flag is said at the flag.
            behind = index > 0 and _named(words[index - 1], word) is not None
            if name is not None and not behind:
                yield warning(
                    f"{at}.{key}[{index}]",
                    f"{name} is a credential in plain text: everybody who may read pods reads it; "
                    f"take it from a variable, $(NAME), and {_ADVICE}",
                )


def _named(word: Any, following: Any) -> str | None:
    """What to call the credential that an argument is, None when it is none."""
    if not isinstance(word, str):
        return None
    match = _FLAG.fullmatch(word)
    if match is None:
        return "one of its words" if _LOOK.search(word) else None
    value = following if match["value"] is None else match["value"]
    return f"--{match[1]}" if _is_literal(value) else None


def _is_literal(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "$" not in value


#: Suffixes of memory quantities; no pod has a million accelerators.
_MEMORY_SUFFIXES = ("i", "M", "G", "T", "P", "E")


def unit_findings(at: Location, template: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields an error for each accelerator count with a unit: `4Gi` was meant as memory."""
    spec = template.get("spec") or {}
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            for kind, amounts in (container.get("resources") or {}).items():
                if kind not in ("limits", "requests") or not isinstance(amounts, Mapping):
                    continue
                for name, amount in amounts.items():
                    if is_accelerator(str(name)) and str(amount).endswith(_MEMORY_SUFFIXES):
                        yield error(
                            "accelerators-with-unit",
                            (*at, "spec", key, index, "resources", kind, str(name)),
                            "accelerators are counted in whole numbers without a unit, got "
                            f"{shown(amount)} ({int(quantity.parse(amount))})",
                        )
