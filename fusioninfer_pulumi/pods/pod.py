"""The pods of a replica, and the inputs and results of the passes that build them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.role import ComponentType, Launcher, RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.endpoint_pickers.picker_families import EppFamily
from fusioninfer_pulumi.engines.command_editing import EditError, edit_command, set_command
from fusioninfer_pulumi.engines.engine import (
    Argument,
    ContainerCommand,
    EngineCommand,
    KvConnector,
    OffloadResult,
)
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.kube.containers import add_mounts, build_shared_memory, find_mount
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta
from fusioninfer_pulumi.rules.common import COMMAND_NOT_EDITABLE, ENGINE_UNKNOWN, TAKEN_BY_TEMPLATE

Template = Mapping[str, Any]

#: Label values by which endpoint pickers distinguish prefill from decode pods, by component type.
PD_ROLES = {ComponentType.PREFILLER: "prefill", ComponentType.DECODER: "decode"}


class PdSettings(NamedTuple):
    """Settings that the prefill and decode pods behind one endpoint picker share.

    Attributes:
        family: Family of the endpoint picker, which determines the sidecar's default family.
        port: Port of the prefill pods, which must be the port of all pods of the pool.
        prefill_serves_https: Whether a prefill engine serves HTTPS.
    """

    family: EppFamily
    port: int
    prefill_serves_https: bool


class SidecarPlan(NamedTuple):
    """The sidecar of a role's leaders.

    Attributes:
        ports: Ports that the sidecar listens on, the pool's port first.
        account: ServiceAccount that the sidecar needs, or None if it needs none.
        is_user_account: Whether the user's template names the ServiceAccount; the library then does
            not create it.
        family: Release family of the sidecar's flags.
    """

    image: Any
    arguments: tuple[str, ...]
    ports: Sequence[int]
    serves_https: bool
    resources: Mapping[str, Any]
    account: str | None
    is_user_account: bool
    family: EppFamily


class KvTransferPlan(NamedTuple):
    """The KV cache transfer of a role.

    Attributes:
        pool_port: Port that clients and the endpoint picker use.
        engine_port: Port that the engine listens on.
        moved_from: Ports in the user's template that are replaced by `engine_port`.
        connector: The engine's KV connector, or None if there is none or it is unknown.
        user_sidecar: Name of the sidecar in the user's template, or None if there is none.
    """

    pool_port: int
    engine_port: int
    moved_from: frozenset[int] = frozenset()
    connector: KvConnector | None = None
    sidecar: SidecarPlan | None = None
    user_sidecar: str | None = None


@dataclass(frozen=True)
class Pod:
    """A pod template before and after the passes.

    Attributes:
        path: The user's field with the template, such as `roles[0].template`.
        initial_template: The template before the first pass: the user's, with values of presets,
            `podLabels` and `podAnnotations`.
        template: The current template, with the changes of the passes that have run. Passes only
            append to lists, so the user's items keep their indexes.
        container_name: Name of the serving container.
        is_leader: Whether this is the leader's template. Before `split_worker_template` the workers
            may share it.
        user_fields: The user's field that made a pass add a list item, keyed by the location of the
            item in the template.
    """

    path: Location
    initial_template: Template
    template: Template
    container_name: str
    is_leader: bool
    user_fields: Mapping[Location, Location] = field(default_factory=dict)

    @property
    def spec(self) -> Mapping[str, Any]:
        """The current pod spec."""
        spec: Mapping[str, Any] = self.template["spec"]
        return spec

    @property
    def container(self) -> Mapping[str, Any]:
        """The current serving container."""
        return _find_container(self.template, self.container_name)[1]

    @property
    def initial_container(self) -> Mapping[str, Any]:
        """The serving container before the first pass."""
        return _find_container(self.initial_template, self.container_name)[1]

    @property
    def container_path(self) -> Location:
        """Path of the serving container in the initial template."""
        index, _ = _find_container(self.initial_template, self.container_name)
        return (*self.path, "spec", "containers", index)

    @property
    def command_path(self) -> Location:
        """Path of `args`, or of `command` if only that is set."""
        container = self.initial_container
        has_only_command = container.get("command") and not container.get("args")
        return (*self.container_path, "command" if has_only_command else "args")

    @cached_property
    def command(self) -> EngineCommand:
        """The current command line."""
        return parse_command(self.container)

    @cached_property
    def initial_command(self) -> EngineCommand:
        """The command line before the first pass."""
        return parse_command(self.initial_container)

    @property
    def has_command(self) -> bool:
        """Whether the serving container has a `command` or `args`."""
        return bool(self.container.get("command") or self.container.get("args"))

    def with_arguments(
        self,
        arguments: Sequence[Argument],
        problem: str,
        *,
        model: str | None = None,
        alternative: str = "",
    ) -> tuple[Pod, list[Finding]]:
        """Return the pod with these arguments of the engine, and this positional `model`.

        If the command line cannot be edited, return the unchanged pod and an error. The message of
        the error is `problem`, the reason and `alternative`.
        """
        try:
            return self.with_command(edit_command(self.command, arguments, model=model)), []
        except EditError as exc:
            message = f"{problem}: {exc}{alternative}"
            return self, [error(COMMAND_NOT_EDITABLE, self.command_path, message)]

    def find_conflicts(
        self,
        mounts: Iterable[str] = (),
        mount_source: str = "",
        env: Iterable[Mapping[str, Any]] = (),
        env_source: str = "",
    ) -> Iterator[Finding]:
        """Yield an error for each mount path and variable that the serving container already has.

        `mount_source` and `env_source` say in messages what sets the mounts and the variables;
        `mount_source` ends with the fix.
        """
        for path in mounts:
            if find_mount(self.container, path) is not None:
                location = (*self.container_path, "volumeMounts")
                yield error(TAKEN_BY_TEMPLATE, location, f"{path} conflicts with {mount_source}")
        env_names = {variable["name"] for variable in env}
        for index, variable in enumerate(self.container.get("env") or ()):
            if variable.get("name") in env_names:
                location = (*self.container_path, "env", index)
                message = f"{variable['name']} conflicts with {env_source}; remove one of them"
                yield error(TAKEN_BY_TEMPLATE, location, message)

    def with_command(self, edited: ContainerCommand | None) -> Pod:
        """Return the pod with the edited command line, or unchanged if `edited` is None."""
        return self.with_container(lambda container: set_command(container, edited))

    def with_container(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Pod:
        """Return the pod with its serving container changed."""
        return self.with_spec(
            containers=[
                dict(change(container)) if container["name"] == self.container_name else container
                for container in self.spec["containers"]
            ]
        )

    def with_fields(self, **fields: Any) -> Pod:
        """Return the pod with fields of its serving container replaced."""
        return self.with_container(lambda container: {**container, **fields})

    def add_volumes(self, volumes: Sequence[Mapping[str, Any]]) -> Pod:
        """Return the pod with these volumes appended."""
        existing = self.spec.get("volumes") or ()
        return self.with_spec(volumes=[*existing, *volumes]) if volumes else self

    def append(self, key: str, items: Sequence[Mapping[str, Any]], user_field: Location) -> Pod:
        """Return the pod with items that a user field requests appended to a list of its spec."""
        existing = self.spec.get(key) or ()
        indexes = range(len(existing), len(existing) + len(items))
        added: dict[Location, Location] = {("spec", key, index): user_field for index in indexes}
        pod = self.with_spec(**{key: [*existing, *items]})
        return replace(pod, user_fields={**self.user_fields, **added})

    def with_shared_memory(self, limit: str | None) -> Pod:
        """Return the pod with a volume at /dev/shm, unless it mounts one or uses the host's IPC."""
        volume_and_mount = build_shared_memory(self.spec, self.container, limit)
        if volume_and_mount is None:
            return self
        volume, mount = volume_and_mount
        return self.with_fields(**add_mounts(self.container, [mount])).add_volumes([volume])

    def with_spec(self, **fields: Any) -> Pod:
        """Return the pod with fields of its spec replaced."""
        return replace(self, template={**self.template, "spec": {**self.spec, **fields}})


def _find_container(template: Template, name: str) -> tuple[int, Mapping[str, Any]]:
    return next(
        (index, container)
        for index, container in enumerate(template["spec"]["containers"])
        if container["name"] == name
    )


@dataclass(frozen=True)
class RolePods:
    """The leader and worker pods that all replicas of a role have.

    Attributes:
        leader: The leader's pod. Before `split_worker_template` the workers share it, unless the
            user sets a template for them.
        worker: The workers' pod; None on a single node. Until `split_worker_template` it is None
            unless the user sets a template for workers.
        engine_command: The engine's command line before a launcher changes it; None until
            `record_engine_command`.
        port: Port that the pods serve on; 0 until `record_engine_command`.
        kv: The plan for KV cache transfer, or None if the role does not transfer, publish or
            offload its KV cache.
        offload: The additions of KV cache offloading, or None if the role does not offload.
        revision: Hash of the finished templates. It does not depend on the service's metadata or
            replica counts. Outputs are hashed as placeholders.
        pair_revision: Hash of the settings that prefill and decode engines must share; see
            `compute_pair_revision`. Empty if it is unknown or no endpoint picker pairs the pods.
    """

    leader: Pod
    worker: Pod | None = None
    engine_command: EngineCommand | None = None
    port: int = 0
    kv: KvTransferPlan | None = None
    offload: OffloadResult | None = None
    revision: str = ""
    pair_revision: str = ""

    @property
    def command(self) -> EngineCommand:
        """The engine's command line, without a launcher's changes."""
        return self.engine_command or self.leader.command

    @property
    def engine_port(self) -> int:
        """Port that the engine listens on, behind a sidecar if there is one."""
        return self.kv.engine_port if self.kv is not None else self.port

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that the pods serve on: one, or one for each rank if every rank has a port."""
        return tuple(range(self.port, self.port + self.command.port_count))

    @property
    def ports_text(self) -> str:
        """The ports that the pods serve on, for messages."""
        first, last = self.ports[0], self.ports[-1]
        return str(first) if first == last else f"{first} to {last}"

    @property
    def all(self) -> list[Pod]:
        """The leader, then the worker if there is one."""
        return [pod for pod in (self.leader, self.worker) if pod is not None]

    @property
    def user_pods(self) -> list[Pod]:
        """The leader, and the worker if the user has a template for it."""
        return [pod for pod in self.all if pod.is_leader or pod.path != self.leader.path]

    def with_pod(self, pod: Pod) -> RolePods:
        """Return these pods with the leader or the worker replaced."""
        return replace(self, leader=pod) if pod.is_leader else replace(self, worker=pod)


class Context(NamedTuple):
    """The input of a role's passes.

    Attributes:
        args: The service with the values of presets.
        position: Index of the role in the service's `roles`.
        role: The role with the values of presets, and the model's size in its `startup`.
        initial_pods: The role's pods before the first pass.
        launcher: Launcher of multi-node replicas, or None for single pods.
        pd_settings: Settings that prefill and decode pods share; None for other roles, and if no
            endpoint picker pairs them.
        shape: Layout, gang and scheduler of the service.
    """

    meta: ServiceMeta
    args: InferenceServiceArgs
    position: int
    role: RoleArgs
    initial_pods: RolePods
    launcher: Launcher | None
    pd_settings: PdSettings | None
    shape: ServiceShape

    def locate(self, *field: str | int) -> Location:
        """Return the location of a field of the role."""
        return ("roles", self.position, *field)


#: Adds one feature to the pods of a role; findings report what it could not add.
Pass = Callable[[RolePods, Context], tuple[RolePods, list[Finding]]]


def make_unknown_engine_error(
    location: Location, command: EngineCommand, remedy: str = "write the arguments yourself"
) -> Finding:
    """Return the error that the field at `location` needs a known engine."""
    message = f"sets arguments of vLLM or SGLang, but {explain_unknown_engine(command)}; {remedy}"
    return error(ENGINE_UNKNOWN, location, message)


def explain_unknown_engine(command: EngineCommand) -> str:
    """Return why the engine of a command line is unknown."""
    if command.script is not None:
        return "no vLLM or SGLang command is found in the container's shell script"
    return "the container runs neither vLLM nor SGLang"
