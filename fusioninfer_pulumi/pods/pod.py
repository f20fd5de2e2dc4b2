"""The pods of one replica, the plans that passes add to them, and the input of the passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.model import ModelArgs
from fusioninfer_pulumi.api.monitoring import TracingArgs
from fusioninfer_pulumi.api.role import ComponentType, Launcher, RoleArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.endpoint_pickers.picker_families import EppFamily
from fusioninfer_pulumi.engines.command_editing import EditError, edit, with_command
from fusioninfer_pulumi.engines.engine import (
    Argument,
    ContainerCommand,
    EngineCommand,
    KvConnector,
    Offload,
)
from fusioninfer_pulumi.engines.engine_commands import read_command
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.kube.containers import add_mounts, find_mount, shared_memory
from fusioninfer_pulumi.kube.object_metadata import Manifest, ServiceMeta
from fusioninfer_pulumi.rules.common import (
    COMMAND_NOT_EDITABLE,
    ENGINE_UNKNOWN,
    TAKEN_BY_TEMPLATE,
)

Template = Mapping[str, Any]

PD_ROLES = {ComponentType.PREFILLER: "prefill", ComponentType.DECODER: "decode"}


#: Fields of a container that its command line is read from.
_COMMAND_FIELDS = ("command", "args", "image", "name", "env")


class Commands:
    """Parsed command lines of a role's containers; equal ones are parsed once."""

    def __init__(self) -> None:
        self._read: list[tuple[tuple[Any, ...], EngineCommand]] = []

    def of(self, container: Mapping[str, Any]) -> EngineCommand:
        """Return the parsed command line of a container."""
        parts = tuple(container.get(key) for key in _COMMAND_FIELDS)
        for known, command in self._read:
            if known == parts:
                return command
        command = read_command(container)
        self._read.append((parts, command))
        return command


class Pairing(NamedTuple):
    """Settings that the prefill and decode pods behind one endpoint picker share.

    Attributes:
        family: Family of the endpoint picker, which decides the sidecar's release.
        port: Port on which the prefill pods serve, and so all pods of the pool.
        registry: Registry that mirrors the sidecar's default image, None for its own.
        sidecar: The sidecar's default image, for sidecars of its family.
    """

    family: EppFamily
    port: int
    prefill_https: bool
    registry: str | None = None
    sidecar: str = ""


class SidecarPlan(NamedTuple):
    """The sidecar of a role's leaders.

    Attributes:
        port: Port that it listens on, which is the pool's.
        account: ServiceAccount whose rights it uses, None when it uses none.
        own_account: Whether that account is the template's own, so that it is not created.
        family: Family whose flags it reads.
    """

    image: Any
    arguments: tuple[str, ...]
    port: int
    https: bool
    rank_ports: int
    resources: Mapping[str, Any]
    account: str | None
    own_account: bool
    family: EppFamily

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that it listens on."""
        return tuple(range(self.port, self.port + self.rank_ports))


class KvTransferPlan(NamedTuple):
    """The KV cache transfer of a role.

    Attributes:
        pool_port: Port that clients and the endpoint picker use.
        engine_port: Port that the engine listens on; the pool's without a sidecar.
        moved_from: The engine's ports in the user's template, which become `engine_port`.
        connector: The engine's KV connector, None if it is unknown.
        user_sidecar: Name of the sidecar in the user's template, None without one.
    """

    pool_port: int
    engine_port: int
    moved_from: frozenset[int] = frozenset()
    connector: KvConnector | None = None
    sidecar: SidecarPlan | None = None
    user_sidecar: str | None = None


@dataclass
class ModelFiles:
    """Volumes, mounts, downloads and variables of a pod for its model.

    Attributes:
        model: What the engine loads: a repository of Hugging Face, or a path.
        revision: Revision that the engine fetches.
        adapters: Repository or path of each adapter by its name.
        fetched: Source, folder and mount of each download by an init container.
        warmed: Source and folder of each download by the warm-up Job.
        images: Whether images are mounted as volumes.
    """

    model: str
    revision: str | None = None
    adapters: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, Manifest] = field(default_factory=dict)
    mounts: list[Manifest] = field(default_factory=list)
    fetched: list[tuple[str, str, Manifest]] = field(default_factory=list)
    warmed: list[tuple[str, str]] = field(default_factory=list)
    env: list[Manifest] = field(default_factory=list)
    images: bool = False


@dataclass(frozen=True)
class Pod:
    """A pod template: the user's and the generated one.

    Attributes:
        path: The user's field.
        user_template: The user's template, with the defaults of presets, `podLabels` and
            `podAnnotations`.
        template: The generated template. A pass creates a new one, and only appends to lists, so
            that indexes stay those of the user's template.
        is_leader: Whether leaders use it, alone or together with the workers.
        commands: Parsed command lines of the role's pods.
    """

    path: Location
    user_template: Template
    template: Template
    name: str
    is_leader: bool
    commands: Commands = field(default_factory=Commands, repr=False, compare=False)

    @property
    def spec(self) -> Mapping[str, Any]:
        """The generated pod spec."""
        spec: Mapping[str, Any] = self.template["spec"]
        return spec

    @property
    def container(self) -> Mapping[str, Any]:
        """The generated serving container."""
        return _named(self.template, self.name)[1]

    @property
    def user_container(self) -> Mapping[str, Any]:
        """The user's serving container."""
        return _named(self.user_template, self.name)[1]

    @property
    def container_path(self) -> Location:
        """Path of the serving container."""
        return (*self.path, "spec", "containers", _named(self.user_template, self.name)[0])

    @property
    def command_path(self) -> Location:
        """Path of `args`, or of `command` where only that is set."""
        command = self.user_container.get("command") and not self.user_container.get("args")
        return (*self.container_path, "command" if command else "args")

    @property
    def command(self) -> EngineCommand:
        """The generated command line."""
        return self.commands.of(self.container)

    @property
    def user_command(self) -> EngineCommand:
        """The user's command line."""
        return self.commands.of(self.user_container)

    @property
    def has_command(self) -> bool:
        """Whether the serving container runs more than its image's entrypoint."""
        return bool(self.container.get("command") or self.container.get("args"))

    def with_arguments(
        self,
        arguments: Sequence[Argument],
        problem: str,
        *,
        model: str | None = None,
        instead: str = "",
    ) -> tuple[Pod, list[Finding]]:
        """Return the pod whose engine has these arguments.

        Unchanged, with an error that begins with `problem`, where their place in the command line
        is not known.
        """
        try:
            return self.with_command(edit(self.command, arguments, model=model)), []
        except EditError as why:
            message = f"{problem}: {why}{instead}"
            return self, [error(COMMAND_NOT_EDITABLE, self.command_path, message)]

    def conflict_findings(
        self,
        mounts: Iterable[str],
        remedy: str,
        env: Iterable[Mapping[str, Any]] = (),
        by: str = "",
    ) -> Iterator[Finding]:
        """Yield an error for each mount path and variable that the template has already."""
        for path in mounts:
            if find_mount(self.container, path) is not None:
                at = (*self.container_path, "volumeMounts")
                yield error(TAKEN_BY_TEMPLATE, at, f"{path} conflicts with {remedy}")
        names = {variable["name"] for variable in env}
        for index, variable in enumerate(self.container.get("env") or ()):
            if variable.get("name") in names:
                at = (*self.container_path, "env", index)
                message = f"{variable['name']} conflicts with {by}; remove one of them"
                yield error(TAKEN_BY_TEMPLATE, at, message)

    def with_command(self, edited: ContainerCommand | None) -> Pod:
        """Return the pod with another command line, None for the one that it has."""
        return self.with_container(lambda container: with_command(container, edited))

    def with_container(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Pod:
        """Return the pod with its serving container changed."""
        return self.with_spec(
            containers=[
                dict(change(container)) if container["name"] == self.name else container
                for container in self.spec["containers"]
            ]
        )

    def with_fields(self, **fields: Any) -> Pod:
        """Return the pod with fields of its serving container replaced."""
        return self.with_container(lambda container: {**container, **fields})

    def add_volumes(self, volumes: Sequence[Mapping[str, Any]]) -> Pod:
        """Return the pod with more volumes behind its own."""
        existing = self.spec.get("volumes") or ()
        return self.with_spec(volumes=[*existing, *volumes]) if volumes else self

    def with_shared_memory(self, limit: str | None) -> Pod:
        """Return the pod with shared memory for its serving container, unless it has some."""
        added = shared_memory(self.spec, self.container, limit)
        if added is None:
            return self
        volume, mount = added
        return self.with_fields(**add_mounts(self.container, [mount])).add_volumes([volume])

    def with_spec(self, **fields: Any) -> Pod:
        """Return the pod with fields of its spec replaced."""
        return replace(self, template={**self.template, "spec": {**self.spec, **fields}})


def _named(template: Template, name: str) -> tuple[int, Mapping[str, Any]]:
    return next(
        (index, container)
        for index, container in enumerate(template["spec"]["containers"])
        if container["name"] == name
    )


@dataclass(frozen=True)
class RolePods:
    """The pods of a role, which all of its replicas share.

    Attributes:
        leader: The leader, or every pod of a role whose user wrote one template, until `split`.
        worker: The other pods. Before `split` only where the user wrote a template for them, after
            it wherever a replica has several pods.
        engine_command: The engine's command line, before a launcher hides it in a script; None
            until `read_engine`.
        port: Port on which the pods serve; 0 until `read_engine`.
        kv: The KV cache transfer, None without one.
        offload: Arguments and volumes of KV cache offloading, None without it.
        revision: Hash of the finished templates. Neither the service's metadata nor a replica
            count changes it. Outputs, whose values are not known yet, count as placeholders.
        pair_revision: Hash of what prefill and decode engines compare before they exchange a KV
            cache; empty where it is unknown, and without an endpoint picker that pairs the pods.
    """

    leader: Pod
    worker: Pod | None = None
    engine_command: EngineCommand | None = None
    port: int = 0
    kv: KvTransferPlan | None = None
    offload: Offload | None = None
    revision: str = ""
    pair_revision: str = ""

    @property
    def command(self) -> EngineCommand:
        """The engine's command line, at any time."""
        return self.engine_command or self.leader.command

    @property
    def engine_port(self) -> int:
        """Port that the engine listens on, behind a sidecar where there is one."""
        return self.kv.engine_port if self.kv is not None else self.port

    @property
    def rank_ports(self) -> int:
        """Ports that the engine serves on, one for each rank that has its own."""
        return self.command.rank_ports

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that the pods serve on, one for each rank that has its own."""
        return tuple(range(self.port, self.port + self.rank_ports))

    @property
    def ports_text(self) -> str:
        """The same, for messages."""
        first, last = self.ports[0], self.ports[-1]
        return str(first) if first == last else f"{first} to {last}"

    @property
    def all(self) -> list[Pod]:
        """The leader, then the worker where there is one."""
        return [pod for pod in (self.leader, self.worker) if pod is not None]

    @property
    def user_pods(self) -> list[Pod]:
        """Pods whose template the user wrote: the worker only if it has a template of its own."""
        return [pod for pod in self.all if pod.is_leader or pod.path != self.leader.path]

    def put(self, pod: Pod) -> RolePods:
        """Return these pods with the leader or the worker replaced."""
        return replace(self, leader=pod) if pod.is_leader else replace(self, worker=pod)


class Context(NamedTuple):
    """The input of all passes of a role; no pass changes it.

    Attributes:
        role: The role after presets, with the model's size in its `startup`.
        user_pods: The role's pods before the first pass.
        launcher: Launcher of multi-node replicas, None for single pods.
        pairing: Settings that prefill and decode pods share, None for other services and roles.
        shape: Layout, gang and scheduler of the service.
    """

    meta: ServiceMeta
    position: int
    role: RoleArgs
    user_pods: RolePods
    nodes: int
    launcher: Launcher | None
    model: ModelArgs | None
    files: ModelFiles | None
    pairing: Pairing | None
    tracing: TracingArgs | None
    shape: ServiceShape

    def at(self, *field: str | int) -> Location:
        """Return the location of a field of the role."""
        return ("roles", self.position, *field)


#: Adds one feature to the pods of a role; its findings name what could not be added.
Pass = Callable[[RolePods, Context], tuple[RolePods, list[Finding]]]


def unknown_engine_finding(at: Location, command: EngineCommand, more: str = "") -> Finding:
    """Return the error for a field that sets arguments of a command line without an engine."""
    message = f"sets arguments of vLLM or SGLang, but {explain_unknown_engine(command)}"
    return error(ENGINE_UNKNOWN, at, f"{message}; write the arguments yourself{more}")


def explain_unknown_engine(command: EngineCommand) -> str:
    """Return why no flag can be set in a command line whose engine is not known."""
    if command.script is not None:
        return "no vLLM or SGLang command is found in the container's shell script"
    return "the container runs neither vLLM nor SGLang"
