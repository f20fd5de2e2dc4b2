"""Converts a ModelServer to a router and role settings of the service that it selects."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_importers.conversion import ConversionReport
from fusioninfer_importers.kthena.deployments import KIND as DEPLOYMENT
from fusioninfer_importers.kthena.models import ModelServerSpec, PDGroup, Role
from fusioninfer_importers.kthena.pods import NAME, PREFIX, ROLE
from fusioninfer_importers.kthena.serving import DECODER, PREFILLER, Serving
from fusioninfer_importers.rules import REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import (
    ENGINE_UNKNOWN,
    PORT_FLAG,
    EngineCommand,
    Location,
    Rule,
    SourceDocument,
    SourceField,
    parse_command,
)

SERVED_MODEL_DIFFERS = Rule("served-model-differs")
HEADER_TIMEOUT_LEFT_OUT = Rule("header-timeout-left-out")

ROUTER = "router"
#: Scorers of Kthena's default configuration, without least-latency, which no endpoint picker has.
SCORERS = {"prefix-cache": 1, "kv-cache": 1, "queue": 1}
_ENGINES = {"vLLM": "vllm", "SGLang": "sglang"}
_GROUP_KEY = f"{PREFIX}group-name"
_TRANSFER_FLAG = "--kv-transfer-config"
#: vLLM's connector and the sidecar's protocol for each of Kthena's connectors.
_CONNECTORS = {
    "nixl": ("NixlConnector", "nixlv2"),
    "lmcache": ("LMCacheConnectorV1", "shared-storage"),
    "mooncake": ("MooncakeConnector", "mooncake"),
}


@dataclass(frozen=True)
class Server:
    """A ModelServer that selects the pods of a service.

    Attributes:
        document: The document.
        spec: Its spec.
        serving: The ModelServing or Deployment whose pods it selects.
        router: Location of the service's router role.
    """

    document: SourceDocument
    spec: ModelServerSpec
    serving: Serving
    router: Location


def convert_server(
    report: ConversionReport,
    document: SourceDocument,
    spec: ModelServerSpec,
    servings: Sequence[Serving],
) -> Server | None:
    """Add a router and settings to the selected service; return None if it cannot be converted."""
    field = document.at("spec")
    serving = _find_selected(report, document, spec, servings)
    if serving is None:
        report.left_out(field, "selects no service of this input; ignored")
        return None
    builder = serving.builder
    if any(role["componentType"] == ROUTER for role in builder.roles):
        report.unsupported(
            field,
            "conflicts with another ModelServer that selects the same pods; a service has one pool",
        )
        return None
    _convert_phases(
        serving, spec.workload_selector.pd_group, field / "workloadSelector" / "pdGroup"
    )
    for index, _ in enumerate(serving.roles):
        target = ("spec", "roles", index, "port")
        builder.derive(target, spec.workload_port.port, field / "workloadPort" / "port")
    if spec.workload_port.protocol == "https":
        report.unsupported(
            field / "workloadPort" / "protocol", "is not supported; terminate TLS at the Gateway"
        )
    report.consume(field / "workloadPort" / "protocol")
    _check_engine(serving, spec, field)
    _convert_connector(serving, spec, field / "kvConnector")
    for index, role in enumerate(serving.roles):
        if builder.roles[index]["componentType"] == DECODER and not read_engine_commands(role):
            _move_engine(serving, index, spec.workload_port.port, field / "inferenceEngine")
    router = builder.add_role(field, ROUTER, ROUTER)
    builder.default((*router, "scorers"), dict(SCORERS), field)
    report.chosen(
        field,
        "a ModelServer sets no scorers; uses Kthena's default, each with weight 1: prefix cache, "
        "KV cache and queued requests (least-latency is not available)",
    )
    return Server(document, spec, serving, router)


def _find_selected(
    report: ConversionReport,
    document: SourceDocument,
    spec: ModelServerSpec,
    servings: Sequence[Serving],
) -> Serving | None:
    selector = spec.workload_selector.match_labels or {}
    field = document.at("spec", "workloadSelector")
    report.consume(field / "matchLabels")
    matches = []
    for serving in servings:
        main = serving.builder.main
        if main.namespace != document.namespace:
            continue
        selected = [
            role.name for role in serving.roles if _is_match(selector, get_labels(main, role))
        ]
        if selected:
            matches.append((serving, selected))
    if not matches:
        report.unsupported(
            field / "matchLabels",
            "selects no pods of this input; pass its ModelServing or Deployment as well",
            REFERENCE_MISSING,
        )
        return None
    if len(matches) > 1:
        names = ", ".join(str(serving.builder.main.name) for serving, _ in matches)
        kinds = " or ".join(dict.fromkeys(f"{match.builder.main.kind}s" for match, _ in matches))
        report.unsupported(
            field / "matchLabels",
            f"selects pods of several {kinds} ({names}); a pool has the pods of one service; "
            "create a ModelServer and a rule for each",
        )
        return None
    serving, selected = matches[0]
    other_names = [role.name for role in serving.roles if role.name not in selected]
    if other_names:
        report.unsupported(
            field / "matchLabels",
            f"selects {', '.join(selected)} without {', '.join(other_names)}; a pool has all roles "
            "of a service; split them into two services",
        )
    return serving


def get_labels(main: SourceDocument, role: Role) -> dict[str, Any]:
    """Return the labels that all entry pods of a role share."""
    metadata = role.entry_template.metadata or {}
    pod_labels = metadata.get("labels")
    user_labels = pod_labels if isinstance(pod_labels, Mapping) else {}
    if main.kind == DEPLOYMENT:
        return dict(user_labels)
    return {NAME: main.name, ROLE: role.name, f"{PREFIX}entry": "true", **user_labels}


def _is_match(selector: Mapping[str, str], pod_labels: Mapping[str, Any]) -> bool:
    return all(pod_labels.get(key) == value for key, value in selector.items())


def _convert_phases(serving: Serving, group: PDGroup | None, field: SourceField) -> None:
    """Set component types from pdGroup, which is more reliable than role names."""
    if group is None:
        return
    builder = serving.builder
    builder.report.consume(field / "groupKey")
    if group.group_key != _GROUP_KEY:
        builder.report.unsupported(
            field / "groupKey", f"must be {_GROUP_KEY}, got {group.group_key}"
        )
    selector_by_type = {
        PREFILLER: (group.prefill_labels, field / "prefillLabels"),
        DECODER: (group.decode_labels, field / "decodeLabels"),
    }
    for component_type, (selector, subfield) in selector_by_type.items():
        builder.report.consume(subfield)
        matched = [
            index
            for index, role in enumerate(serving.roles)
            if _is_match(selector, get_labels(builder.main, role))
        ]
        if not matched:
            builder.report.error(REFERENCE_MISSING, subfield, "select no role of the ModelServing")
        for index in matched:
            builder.derive(("spec", "roles", index, "componentType"), component_type, subfield)


def read_engine_commands(role: Role) -> list[EngineCommand]:
    """Return the commands of containers with a supported engine in a role's entry pods."""
    containers = (role.entry_template.spec or {}).get("containers")
    parsed = [
        parse_command(container)
        for container in (containers if isinstance(containers, list) else ())
        if isinstance(container, Mapping) and isinstance(container.get("image"), str)
    ]
    return [command for command in parsed if command.engine is not None]


def _check_engine(serving: Serving, spec: ModelServerSpec, field: SourceField) -> None:
    report, engine_field = serving.builder.report, field / "inferenceEngine"
    report.consume(engine_field, field / "model")
    engine_commands = [command for role in serving.roles for command in read_engine_commands(role)]
    engines = {command.engine.name for command in engine_commands if command.engine is not None}
    expected_engine = _ENGINES[spec.inference_engine]
    if engines and engines != {expected_engine}:
        message = f"must match the engine of the pods, {', '.join(sorted(engines))}"
        report.invalid(engine_field, message)
    elif not engines and spec.inference_engine == "SGLang":
        report.unsupported(
            engine_field,
            "the engine cannot be detected, and the endpoint picker would read vLLM's metrics; "
            "start it with `python3 -m sglang.launch_server`",
            ENGINE_UNKNOWN,
        )
    elif not engines:
        report.info(ENGINE_UNKNOWN, engine_field, "the engine cannot be detected; assuming vLLM")
    served = {name for command in engine_commands for name in command.served_names or ()}
    if spec.model is not None and served and spec.model not in served:
        report.warning(
            SERVED_MODEL_DIFFERS,
            field / "model",
            f"differs from the model in the engines' arguments, {', '.join(sorted(served))}",
        )
    elif spec.model is not None and not served:
        report.left_out(field / "model", "the engines' arguments do not name a model")


def _convert_connector(serving: Serving, spec: ModelServerSpec, field: SourceField) -> None:
    """Set the KV cache transfer from prefill to decode pods."""
    builder, connector_spec = serving.builder, spec.kv_connector
    kind = (None if connector_spec is None else connector_spec.type) or "http"
    pd_indexes = [
        index
        for index, role in enumerate(builder.roles)
        if role["componentType"] in (PREFILLER, DECODER)
    ]
    if connector_spec is not None and not pd_indexes:
        builder.report.left_out(field, "has no effect without prefill and decode; ignored")
        return
    if connector_spec is not None:
        builder.report.consume(field)
    if kind == "http":
        for index in pd_indexes:
            role = serving.roles[index]
            if read_engine_commands(role) and not _has_kv_transfer(role):
                # In Kthena such engines serve anyway: decode computes each prompt again.
                target = ("spec", "roles", index, "kvTransfer")
                builder.default(target, {"enabled": False}, field)
        if connector_spec is not None:
            builder.report.left_out(
                field / "type",
                "has no equivalent; the engines' own KV transfer settings apply, if any",
            )
        return
    connector, protocol = _CONNECTORS[kind]
    for index in pd_indexes:
        settings: dict[str, Any] = {}
        if not _has_kv_transfer(serving.roles[index]):
            settings["connector"] = connector
        elif not read_engine_commands(serving.roles[index]):
            settings["enabled"] = False  # the arguments configure the transfer already
        if builder.roles[index]["componentType"] == DECODER:
            settings["sidecar"] = {"connector": protocol}
        builder.derive(("spec", "roles", index, "kvTransfer"), settings, field / "type")


def _has_kv_transfer(role: Role) -> bool:
    """Return whether the engine's arguments configure a KV connector, even an invalid one."""
    engine_commands = read_engine_commands(role)
    if not engine_commands:
        containers = [container for container, _ in _list_entry_containers(role)]
        words = [word for item in containers if _uses_entrypoint(item) for word in item["args"]]
        return any(str(word).partition("=")[0] == _TRANSFER_FLAG for word in words)
    return any(command.connector is not None for command in engine_commands)


def _list_entry_containers(role: Role) -> list[tuple[Mapping[str, Any], list[Any]]]:
    """Return the containers of a role's entry pods, each with its port numbers."""
    containers = (role.entry_template.spec or {}).get("containers")
    entries = []
    for container in containers if isinstance(containers, list) else ():
        fields = container if isinstance(container, Mapping) else {}
        ports = fields.get("ports")
        port_list = ports if isinstance(ports, list) else ()
        numbers = [port.get("containerPort") for port in port_list if isinstance(port, Mapping)]
        entries.append((fields, numbers))
    return entries


def _uses_entrypoint(container: Mapping[str, Any]) -> bool:
    """Return whether a container starts its image's entrypoint with arguments."""
    words = container.get("args")
    is_text = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return is_text and not container.get("command")


def _move_engine(serving: Serving, index: int, port: int, field: SourceField) -> None:
    """Start a decode engine on another port than the ModelServer's, which the sidecar uses.

    Only for engines that their image's entrypoint starts: their port flag is known, because the
    ModelServer names the engine.
    """
    builder, role = serving.builder, ("spec", "roles", index)
    keys = ("leaderTemplate", "template")
    template = next(key for key in keys if builder.get((*role, key)) is not None)
    containers: Location = (*role, template, "spec", "containers")
    entries = _list_entry_containers(serving.roles[index])
    used = [number for _, numbers in entries for number in numbers]
    for position, (container, numbers) in enumerate(entries):
        if port not in numbers or not _uses_entrypoint(container):
            continue
        new = next(number for number in itertools.count(port + 1) if number not in used)
        args = _replace_port(container["args"], port, new)
        builder.default((*containers, position, "args"), args, field)
        settings = builder.get((*role, "kvTransfer")) or {}
        new_settings = {**settings, "enabled": False, "enginePort": new}
        builder.default((*role, "kvTransfer"), new_settings, field)
        builder.report.chosen(
            field, f"the decode engine listens on {new}, because the sidecar has port {port}"
        )
        return


def _replace_port(args: Sequence[str], port: int, new: int) -> list[str]:
    """Return arguments with another port, which vLLM and SGLang set by the same flag."""
    if not any(word.partition("=")[0] == PORT_FLAG for word in args):
        return [*args, f"{PORT_FLAG}={new}"]
    arguments = [f"{PORT_FLAG}={new}" if word == f"{PORT_FLAG}={port}" else word for word in args]
    for index, (flag, value) in enumerate(itertools.pairwise(args)):
        if (flag, value) == (PORT_FLAG, str(port)):
            arguments[index + 1] = str(new)
    return arguments


def check_traffic_policy(server: Server) -> None:
    """Report a timeout, which an HTTPRoute cannot express, and retries without a route."""
    policy, builder = server.spec.traffic_policy, server.serving.builder
    if policy is None:
        return
    report, field = builder.report, server.document.at("spec", "trafficPolicy")
    report.consume(field)
    if builder.get((*server.router, "httproute", "routedBy")) is not None:
        return  # another service's rule routes the requests; `convert_route` compared the retries
    has_rules = builder.get((*server.router, "httproute", "rules")) is not None
    if policy.retry is not None and not has_rules:
        report.unsupported(
            field / "retry", "needs a route; pass its ModelRoute as well", REFERENCE_MISSING
        )
    if policy.timeout is not None:
        # Since August 2026 Kthena's timeout covers only the wait for response headers; a timeout of
        # an HTTPRoute would also end streams.
        report.warning(
            HEADER_TIMEOUT_LEFT_OUT,
            field / "timeout",
            f"{policy.timeout} is ignored: Kthena's timeout covers only the wait for response "
            "headers, and a timeout of an HTTPRoute would cut streamed responses",
        )
