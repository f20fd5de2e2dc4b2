"""A ModelServer: which service it leads to, and what it says about its pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.kv_connectors import kv_setup
from fusioninfer_pulumi.engines.model_arguments import served_names
from fusioninfer_pulumi.importers.carrier import Book, Carrier
from fusioninfer_pulumi.importers.given import At, Given, Path
from fusioninfer_pulumi.importers.kthena.models import ModelServing, Role
from fusioninfer_pulumi.importers.kthena.pods import NAME, PREFIX, ROLE
from fusioninfer_pulumi.importers.kthena.roles import DECODER, PREFILLER
from fusioninfer_pulumi.importers.kthena.routing_models import (
    Connector,
    InferenceEngine,
    ModelServerSpec,
    PDGroup,
    Protocol,
)

ROUTER = "router"
_ENGINES = {InferenceEngine.VLLM: "vllm", InferenceEngine.SGLANG: "sglang"}
_GROUP_KEY = f"{PREFIX}group-name"
#: The connectors of vLLM, and the sidecar's protocols, that Kthena's names stand for.
_CONNECTORS = {
    Connector.NIXL: ("NixlConnector", "nixlv2"),
    Connector.LMCACHE: ("LMCacheConnectorV1", "shared-storage"),
    Connector.MOONCAKE: ("MooncakeConnector", "mooncake"),
}


@dataclass(frozen=True)
class Serving:
    """A ModelServing and the service that stands for it.

    Attributes:
        model: The ModelServing.
        carrier: The service.
        lowest: Least replicas that an autoscaler leaves a role, and where that is said.
    """

    model: ModelServing
    carrier: Carrier
    lowest: dict[str, tuple[int, At]] = field(default_factory=dict)

    @property
    def roles(self) -> Sequence[Role]:
        """Its roles."""
        return self.model.spec.template.roles


@dataclass(frozen=True)
class Server:
    """A ModelServer that leads to a service.

    Attributes:
        document: The document.
        spec: Its spec.
        serving: The ModelServing whose pods it selects.
        router: Path of the service's router role.
    """

    document: Given
    spec: ModelServerSpec
    serving: Serving
    router: Path


def carry_server(
    book: Book, document: Given, spec: ModelServerSpec, servings: Sequence[Serving]
) -> Server | None:
    """Gives the ModelServing that a ModelServer selects a router, and its roles what it says.

    Args:
        book: The book of the documents.
        document: The ModelServer.
        spec: Its spec.
        servings: The ModelServings of the input.

    Returns:
        The ModelServer as part of a service, None where it leads to none.
    """
    at = document.at("spec")
    serving = _selected(book, document, spec, servings)
    if serving is None:
        book.note(at, "is left out: it leads to no service")
        return None
    carrier = serving.carrier
    if any(role["componentType"] == ROUTER for role in carrier.roles):
        book.lost(at, "a service has one pool, and another ModelServer selects these pods already")
        return None
    _phases(serving, spec.workload_selector.pd_group, at / "workloadSelector" / "pdGroup")
    for index, _ in enumerate(serving.roles):
        target = ("spec", "roles", index, "port")
        carrier.derive(target, spec.workload_port.port, at / "workloadPort" / "port")
    if spec.workload_port.protocol is Protocol.HTTPS:
        book.lost(
            at / "workloadPort" / "protocol",
            "gateway and picker speak plain HTTP to the pods; end TLS at the Gateway",
        )
    book.read(at / "workloadPort" / "protocol")
    _engine(serving, spec, at)
    _connector(serving, spec, at / "kvConnector")
    router = carrier.role(at)
    carrier.imply((*router, "name"), ROUTER, at)
    carrier.imply((*router, "componentType"), ROUTER, at)
    return Server(document, spec, serving, router)


def _selected(
    book: Book, document: Given, spec: ModelServerSpec, servings: Sequence[Serving]
) -> Serving | None:
    wanted, at = spec.workload_selector.match_labels or {}, document.at("spec", "workloadSelector")
    book.read(at / "matchLabels")
    found = []
    for serving in servings:
        main = serving.carrier.main
        if main.namespace != document.namespace:
            continue
        matched = [role.name for role in serving.roles if _matches(wanted, labels(main, role))]
        if matched:
            found.append((serving, matched))
    if not found:
        book.lost(at / "matchLabels", "selects no pods of a ModelServing of this input")
        return None
    if len(found) > 1:
        names = ", ".join(str(serving.carrier.main.name) for serving, _ in found)
        book.lost(
            at / "matchLabels",
            f"selects pods of several ModelServings ({names}), and a pool holds those of one "
            "service; make a ModelServer and a rule for each",
        )
        return None
    serving, matched = found[0]
    left = [role.name for role in serving.roles if role.name not in matched]
    if left:
        book.lost(
            at / "matchLabels",
            f"selects {', '.join(matched)} without {', '.join(left)}, and the pool of a service "
            "holds all of its roles; make two services of them",
        )
    return serving


def labels(main: Given, role: Role) -> dict[str, Any]:
    """Labels of a role's entry pods that do not differ from one to another."""
    metadata = role.entry_template.metadata or {}
    own = metadata.get("labels")
    static = {NAME: main.name, ROLE: role.name, f"{PREFIX}entry": "true"}
    return {**static, **(own if isinstance(own, Mapping) else {})}


def _matches(wanted: Mapping[str, str], held: Mapping[str, Any]) -> bool:
    return all(held.get(key) == value for key, value in wanted.items())


def _phases(serving: Serving, group: PDGroup | None, at: At) -> None:
    """Takes from the ModelServer which roles prefill and decode; it knows better than names."""
    if group is None:
        return
    carrier = serving.carrier
    carrier.book.read(at / "groupKey")
    if group.group_key != _GROUP_KEY:
        carrier.book.lost(
            at / "groupKey",
            f"prefill and decode pair by serving group ({_GROUP_KEY}), got {group.group_key}",
        )
    wanted = {
        PREFILLER: (group.prefill_labels, at / "prefillLabels"),
        DECODER: (group.decode_labels, at / "decodeLabels"),
    }
    for kind, (selector, place) in wanted.items():
        carrier.book.read(place)
        matched = [
            index
            for index, role in enumerate(serving.roles)
            if _matches(selector, labels(carrier.main, role))
        ]
        if not matched:
            carrier.book.refuse(place, "select no role of the ModelServing")
        for index in matched:
            carrier.derive(("spec", "roles", index, "componentType"), kind, place)


def commands(role: Role) -> list[EngineCommand]:
    """The engines that a role's entry pods run, as far as they are known."""
    containers = (role.entry_template.spec or {}).get("containers")
    read = [
        read_command(each)
        for each in (containers if isinstance(containers, list) else ())
        if isinstance(each, Mapping) and isinstance(each.get("image"), str)
    ]
    return [command for command in read if command.engine is not None]


def _engine(serving: Serving, spec: ModelServerSpec, at: At) -> None:
    book, place = serving.carrier.book, at / "inferenceEngine"
    book.read(place, at / "model")
    found = [command for role in serving.roles for command in commands(role)]
    engines = {command.engine for command in found}
    wanted = _ENGINES[spec.inference_engine]
    if engines and engines != {wanted}:
        book.refuse(place, f"the pods run {', '.join(sorted(map(str, engines)))}")
    elif not engines and spec.inference_engine is InferenceEngine.SGLANG:
        book.lost(
            place,
            "no container's program is known, and the picker then reads vLLM's metrics; start it "
            "as `python3 -m sglang.launch_server`",
        )
    elif not engines:
        book.note(place, "no container's program is known; vLLM is assumed")
    served = {name for each in found for name in served_names(each) or ()}
    if spec.model is not None and served and spec.model not in served:
        book.warn(at / "model", f"the engines serve {', '.join(sorted(served))} by their arguments")
    elif spec.model is not None and not served:
        book.note(at / "model", "the engines' arguments do not say which model they serve")


def _connector(serving: Serving, spec: ModelServerSpec, at: At) -> None:
    if spec.kv_connector is None:
        return
    carrier, kind = serving.carrier, spec.kv_connector.type or Connector.HTTP
    place = at / "type"
    pair = [
        index
        for index, role in enumerate(carrier.roles)
        if role["componentType"] in (PREFILLER, DECODER)
    ]
    if not pair:
        carrier.book.note(at, "has no effect without prefill and decode; left out")
        return
    carrier.book.read(at)
    if kind is Connector.HTTP:
        carrier.book.note(place, "the engines' own settings say how the KV cache is handed over")
        return
    connector, protocol = _CONNECTORS[kind]
    for index in pair:
        settings: dict[str, Any] = {}
        if not _has_own(serving.roles[index]):
            settings["connector"] = connector
        if carrier.roles[index]["componentType"] == DECODER:
            settings["sidecar"] = {"connector": protocol}
        carrier.derive(("spec", "roles", index, "kvTransfer"), settings, place)


def _has_own(role: Role) -> bool:
    """Whether the engine's arguments say how the KV cache is handed over, right or wrong."""
    return any(kv_setup(command) is not None for command in commands(role))
