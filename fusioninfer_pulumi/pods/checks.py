"""Checks of finished pods: engine against pod, ports, volumes, credentials, prefill and decode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.topology import VOLCANO
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.engine import PORT_FLAG
from fusioninfer_pulumi.engines.parallelism import check_accelerators
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    error,
    info,
    path_text,
    shown,
    warning,
)
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.resources import accelerators, is_accelerator, one_rank_each
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.commands import command_findings
from fusioninfer_pulumi.pods.devices import accelerator_findings, disk_findings, memory_findings
from fusioninfer_pulumi.pods.kubelet import kubelet_findings
from fusioninfer_pulumi.pods.named_files import named_file_findings
from fusioninfer_pulumi.pods.parallelism import shortage, sizes_refused
from fusioninfer_pulumi.pods.pod import Context
from fusioninfer_pulumi.pods.ports import port_findings, served_port
from fusioninfer_pulumi.pods.probes import probe_findings
from fusioninfer_pulumi.pods.sidecar import own_sidecar
from fusioninfer_pulumi.pods.validation.written import pod_findings
from fusioninfer_pulumi.pods.variables import reference_findings

PROGRAM_IN_ARGS = Rule(
    "program-in-args",
    "warning",
    "The words in `args` are arguments, not the program itself.",
    remedy="Move the program to `command`.",
)
ROLE_PARKED = Rule(
    "role-parked",
    "info",
    "A role has replicas.",
    remedy="Raise `replicas` to start it.",
)
LAUNCHER_WITHOUT_EFFECT = Rule(
    "launcher-without-effect",
    "warning",
    "`launcher` belongs to replicas of several nodes.",
    remedy="Remove it.",
)
PORT_NOT_SERVED = Rule(
    "port-not-served",
    ("error", "warning"),
    "The engine listens on the port that the pool or Service uses.",
    remedy="Correct `port`, or the engine's `--port`.",
)
VOLCANO_IGNORES_CLAIMS = Rule(
    "volcano-ignores-claims",
    "warning",
    "Volcano allocates the devices that pods claim.",
    remedy="Set `predicate.DynamicResourceAllocationEnable: true` for its plugin predicates.",
    source="Volcano 1.14.1",
)
CREDENTIAL_IN_PLAIN_TEXT = Rule(
    "credential-in-plain-text",
    "warning",
    "Credentials are not written into pods in plain text.",
    remedy="Use `valueFrom.secretKeyRef`.",
    source="https://kubernetes.io/docs/concepts/configuration/secret/",
)
ACCELERATORS_WITH_UNIT = Rule(
    "accelerators-with-unit",
    "error",
    "Accelerators are counted without a unit.",
    remedy="Write a whole number.",
    source="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
)


def role_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks the finished pods of a role."""
    for pod in pods.written:
        yield from unit_findings(pod.path, pod.written)
    if pods.kv is None or pods.kv.sidecar is None:
        yield from _port(pods, ctx)
    yield from port_findings(pods, ctx)
    yield from accelerator_findings(pods, ctx)
    yield from memory_findings(pods, ctx)
    yield from disk_findings(pods, ctx)
    yield from command_findings(pods, ctx)
    yield from probe_findings(pods)
    yield from named_file_findings(pods)
    yield from reference_findings(pods)
    yield from kubelet_findings(pods)
    yield from _engine(pods, ctx)
    yield from _advice(ctx)
    for pod in pods.written:
        yield from credential_findings(pod.path, pod.written)
    yield from pod_findings(pods, ctx)


def _engine(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """What the engine's arguments need, and pods, launcher and image do not have."""
    command, at, engine = pods.command, pods.leader.command_path, pods.command.engine
    found: list[Finding] = []
    have, *others = {accelerators(each.template) for each in pods.each}
    # Asked for through DRA claims, or not at all: there is nothing to count. A device that holds
    # several ranks, such as a Neuron device, says nothing about how many there are.
    counted = have and not others and one_rank_each(pods.leader.template)
    # What does not fit `parallelism` is an error of that field.
    if counted and not sizes_refused(ctx.role) and shortage(ctx.role, command, have) is None:
        found += check_accelerators(command, have, ctx.nodes)
    if ctx.launcher is not None and engine is not None:
        for each in engine.check_launch(command, ctx.launcher.value, ctx.nodes):
            # Without a flag, a finding is about the launcher that the image does not fit.
            yield each.at(*(at if each.location else ctx.at("multinode", "launcher")))
    if engine is not None:
        found += engine.check_connector(command)
    if pods.leader.command.program_in_args:
        yield warning(
            PROGRAM_IN_ARGS,
            at,
            "vLLM's image starts the engine by itself and gets these words as its arguments: move "
            f'"{" ".join(command.program)}" to command',
        )
    yield from (each.at(*at) for each in found)


def _advice(ctx: Context) -> Iterator[Finding]:
    if not ctx.role.replicas:
        message = "is 0: the role is parked, no pods of it are made"
        yield info(ROLE_PARKED, ctx.at("replicas"), message)
    explicit = ctx.role.multinode.launcher if ctx.role.multinode else None
    if ctx.nodes == 1 and explicit and ctx.role.counted:
        message = "has no effect: a replica is a single pod"
        yield warning(LAUNCHER_WITHOUT_EFFECT, ctx.at("multinode", "launcher"), message)


_REACHED = "probe, Service and pool would reach a port on which nothing listens"


def _port(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Compares the port of a role with the one that its engine listens on.

    A container beside the engine that listens on the port, such as a proxy of the user's, is what
    `port` is for: then there is no finding.
    """
    leader, port, explicit = pods.leader, pods.port, ctx.role.port
    command, at = read_command(leader.own), leader.command_path
    engine, written = command.engine, command.port
    listens = served_port(command)
    if engine is None or listens is None or listens == port:
        return
    if own_sidecar(leader.written, leader.name, port) is not None:
        return
    field = ctx.at("port")
    if written is not None:
        say = error if command.readable else warning
        reason = f"{PORT_FLAG} {written} of the engine"
        if explicit is not None:
            message = (
                f"{port} contradicts {reason} ({path_text(at)}): {_REACHED}; remove one of them"
            )
            yield say(PORT_NOT_SERVED, field, message)
        else:
            message = f"{reason} is not the port {port} of the role: {_REACHED}"
            yield say(PORT_NOT_SERVED, at, message)
        return
    reason = f"{engine.name} listens on {listens} without {PORT_FLAG}"
    way_out = f"{_REACHED}; add {PORT_FLAG}={port} to its arguments"
    if explicit is not None:
        # The entrypoint of somebody's own image may choose a port by itself.
        say = error if command.program or command.image.stock else warning
        message = f"{port} is not where the engine listens: {reason}: {way_out}"
        yield say(PORT_NOT_SERVED, field, message)
    else:
        message = f"the role is reached on port {port}, but {reason}: {way_out}"
        yield warning(PORT_NOT_SERVED, at, message)


def claim_findings(roles: Iterable[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Warns of pods with claims that Volcano places: as it is installed, it ignores claims.

    Volcano 1.14.1, pkg/scheduler/plugins/predicates: the plugin for claims is off by default, and
    pods are bound without an allocation, which no kubelet starts (e2e/test_claims.py).
    """
    for ctx, pods in roles:
        if ctx.scheduler != VOLCANO:
            return
        out = "gangPolicy.mode to Off" if ctx.gang else "schedulerName to another scheduler"
        by_hand = (
            (*pod.path, "spec", "resourceClaims")
            for pod in pods.written
            if pod.written["spec"].get("resourceClaims")
        )
        at = ctx.at("resourceClaims") if ctx.role.resource_claims else next(by_hand, None)
        if at is not None:
            yield warning(
                VOLCANO_IGNORES_CLAIMS,
                at,
                "Volcano binds such pods without the devices that they claim, and they never "
                "start, unless the arguments of its plugin predicates say "
                "predicate.DynamicResourceAllocationEnable: true (1.14.1: false by default); say "
                f"so there, or set schedulingStrategy.{out}",
            )
            return


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


def credential_findings(at: Location, template: Mapping[str, Any]) -> Iterator[Finding]:
    """Warns of each literal credential among the variables and arguments of a template.

    What refers to a variable is no literal.
    """
    spec = template.get("spec") or {}
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            here = (*at, "spec", key, index)
            yield from variable_findings(here, container.get("env") or ())
            yield from _arguments(here, container)


def variable_findings(at: Location, variables: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Warns of each literal credential among the variables of a container."""
    for index, variable in enumerate(variables):
        name = str(variable.get("name"))
        value: Any = variable.get("value")
        if not _is_literal(value):
            continue
        if _VARIABLE.fullmatch(name) or _LOOK.search(value):
            yield warning(
                CREDENTIAL_IN_PLAIN_TEXT,
                (*at, "env", index, "value"),
                f"{name} is a credential in plain text: everybody who may read pods reads it; "
                f"{_ADVICE}",
            )


def _arguments(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    for key in ("command", "args"):
        held = container.get(key)
        words = held if isinstance(held, (list, tuple)) else ()
        for index, word in enumerate(words):
            name = _named(word, words[index + 1] if index + 1 < len(words) else None)
            # A value after a flag is reported at the flag.
            behind = index > 0 and _named(words[index - 1], word) is not None
            if name is not None and not behind:
                yield warning(
                    CREDENTIAL_IN_PLAIN_TEXT,
                    (*at, key, index),
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
                            ACCELERATORS_WITH_UNIT,
                            (*at, "spec", key, index, "resources", kind, str(name)),
                            "accelerators are counted in whole numbers without a unit, got "
                            f"{shown(amount)} ({int(quantity.parse(amount))})",
                        )
