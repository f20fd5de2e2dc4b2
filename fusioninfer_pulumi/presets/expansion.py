"""Generates the serving containers of roles.

The library generates the serving container of a role if the service has a `model`, and either the
template's container has no image or the role or the service sets `engine`. Roles with
`leaderTemplate` or `workerTemplate` are unchanged. Values in the template's container take
precedence, and arguments are merged. The origin of each value is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from fusioninfer_pulumi.api.availability import StartupArgs, TopologySpreadArgs
from fusioninfer_pulumi.api.engine import EngineArgs, ParallelismArgs
from fusioninfer_pulumi.api.field_types import MAX_COUNT
from fusioninfer_pulumi.api.kv_cache import KvTransferArgs
from fusioninfer_pulumi.api.model import FETCHER_IMAGE, Fetch, ModelArgs, hub_name
from fusioninfer_pulumi.api.provenance import PresetValue, Provenance
from fusioninfer_pulumi.api.role import ComponentType, Launcher, MultinodeArgs, RoleArgs
from fusioninfer_pulumi.api.rollout import DEFAULT_TIMEOUT
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.engines.argument_tables import parse_release
from fusioninfer_pulumi.engines.command_flags import integer, normalize_flag
from fusioninfer_pulumi.engines.engine import PORT_FLAG, Engine
from fusioninfer_pulumi.engines.engine_commands import ENGINES, find_serving_container, read_command
from fusioninfer_pulumi.engines.engine_presets import (
    CATALOGUE_ENGINE,
    KEEP_ALIVE_SECONDS,
    EnginePreset,
    get_edition_defaults,
)
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, errors
from fusioninfer_pulumi.kube import durations, quantity
from fusioninfer_pulumi.kube.containers import empty_dir, overlay, shared_memory, use_mirror
from fusioninfer_pulumi.kube.resource_requests import accelerators
from fusioninfer_pulumi.plan.service_plan import RoleEngine
from fusioninfer_pulumi.pods.probes_and_shutdown import (
    GRACE_FIELD,
    compute_drain_seconds,
    compute_startup_seconds,
)
from fusioninfer_pulumi.presets.model_catalogue import (
    GpuLayout,
    compute_layout,
    explain_unknown_model,
    find_catalogue_layout,
    find_catalogue_model,
    get_model_bytes,
    load_catalogue,
)
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, OUT_OF_RANGE, UNKNOWN_VALUE

#: `accelerator` of roles without GPUs.
CPU = "cpu"
#: Default cache folder of huggingface_hub in images of both engines, which run as root.
_HUB_CACHE = "/root/.cache/huggingface"
#: Origins of values, for `plan --explain`.
USER, MODEL, RELEASE, CAPACITY, LIBRARY = (
    "user", "model catalogue", "engine release", "capacity", "library default",
)  # fmt: skip

PRESET_WITHOUT_IMAGE = Rule("preset-without-image")

_NVIDIA_GPU, _AMD_GPU = "nvidia.com/gpu", "amd.com/gpu"
#: AMD's accelerators: MI300X, AMD-Instinct-MI355X-OAM.
_AMD = re.compile(r"(?<![a-z])mi[0-9]{3}", re.IGNORECASE)
_NODE = "kubernetes.io/hostname"
_GIB = 2**30
_CPUS = 4  # of a replica without GPUs


class Expansion(NamedTuple):
    """The result of `expand`.

    Attributes:
        args: The spec with generated containers.
        provenance: Where the values of the generated containers come from.
        engines: The engine and release of each generated container without a user's image.
        findings: Reasons why a container cannot be generated.
        incomplete: Locations of the roles whose containers cannot be generated.
    """

    args: InferenceServiceArgs
    provenance: Provenance
    engines: tuple[RoleEngine, ...] = ()
    findings: tuple[Finding, ...] = ()
    incomplete: frozenset[Location] = frozenset()


def _generates_container(args: InferenceServiceArgs, role: RoleArgs) -> bool:
    """Return whether the library generates the serving container of a role."""
    if args.model is None or role.component_type is ComponentType.ROUTER:
        return False
    if role.leader_template is not None or role.worker_template is not None:
        return False
    if role.template is None or role.engine is not None or args.engine is not None:
        return True
    spec = role.template.get("spec") or {}
    if not spec.get("containers"):
        return True
    return "image" not in find_serving_container(role.template, role.container)


def expand(args: InferenceServiceArgs) -> Expansion:
    """Expand a spec: generate containers, mirror the fetcher's image and extend timeouts."""
    user_args, args = args, _mirror_fetcher(args)
    model = args.model
    generated_roles = frozenset(
        position for position, role in enumerate(args.roles) if _generates_container(args, role)
    )
    if model is None or not generated_roles:
        return Expansion(args, Provenance(user_args))
    roles: list[RoleArgs] = []
    values: list[PresetValue] = []
    engines: list[RoleEngine] = []
    origins: dict[Location, Location] = {}
    findings: list[Finding] = []
    incomplete: set[Location] = set()
    for position, role in enumerate(args.roles):
        if position not in generated_roles:
            roles.append(role)
            continue
        expander = _RoleExpander(args, model, position, role)
        roles.append(expander.expand_role())
        values += expander.values
        origins |= expander.origins
        if "image" not in expander.user_container:
            engines.append(expander.role_engine)
        findings += [finding for finding in expander.findings if finding not in findings]
        if errors(expander.findings):
            incomplete.add(("roles", position))
    timeouts, timeout_values = _extend_timeouts(args, roles)
    expanded = _unset_fields(args.model_copy(update={"roles": roles, **timeouts}), "engine")
    values += timeout_values
    provenance = Provenance(user_args, origins, tuple(values), generated_roles)
    return Expansion(expanded, provenance, tuple(engines), tuple(findings), frozenset(incomplete))


def _mirror_fetcher(args: InferenceServiceArgs) -> InferenceServiceArgs:
    model, registry = args.model, args.image_registry
    if model is None or registry is None or "image" in model.fetcher.model_fields_set:
        return args
    fetcher = model.fetcher.model_copy(update={"image": use_mirror(FETCHER_IMAGE, registry)})
    return args.model_copy(update={"model": model.model_copy(update={"fetcher": fetcher})})


def _extend_timeouts(
    args: InferenceServiceArgs, roles: Sequence[RoleArgs]
) -> tuple[dict[str, Any], list[PresetValue]]:
    """Return longer timeouts, and notes on them, if engines may need more than the default."""
    pairs = zip(args.roles, roles, strict=True)
    longest = max(
        (
            compute_startup_seconds(new.startup)
            for old, new in pairs
            if new.startup is not old.startup and new.startup is not None
        ),
        default=0,
    )
    if longest <= (durations.seconds(DEFAULT_TIMEOUT) or 0):
        return {}, []
    minutes = -(-longest // 60)
    timeout = f"{minutes + 10}m"
    reason = f"{minutes}m to start a replica (from startup.modelSize), plus 10m"
    timeouts = {
        name: part.model_copy(update={"timeout": timeout})
        for name, part in (("wait", args.wait), ("rollout", args.rollout))
        if "timeout" not in part.model_fields_set
    }
    # Timeouts are fields of the service, so the name of the role is empty.
    values = [PresetValue("", f"{name}.timeout", timeout, LIBRARY, reason) for name in timeouts]
    return timeouts, values


@dataclass
class _RoleExpander:
    args: InferenceServiceArgs
    model: ModelArgs
    position: int
    user_role: RoleArgs
    values: list[PresetValue] = field(default_factory=list)
    origins: dict[Location, Location] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        engine_args = self.user_role.engine or self.args.engine or EngineArgs()
        self.engine: Engine = ENGINES[engine_args.name.value]
        presets = get_edition_defaults(self.args.edition).presets
        self.preset: EnginePreset = presets[engine_args.name.value]
        self.release = engine_args.version or self.preset.release
        role, is_default = self.user_role.name, engine_args.version is None
        self.role_engine = RoleEngine(role, self.engine.title, self.release, is_default)
        self.model_name = hub_name(self.model.uri) or ""
        self.weights_bytes = None
        if self.model.size is None:
            self.weights_bytes = get_model_bytes(self.model, self.model_name)
        self.template: Mapping[str, Any] = self.user_role.template or {}
        self.spec: Mapping[str, Any] = self.template.get("spec") or {}
        self.user_container = self._find_user_container()
        self.user_gpus = accelerators(
            {"spec": {"containers": [self.user_container] if self.user_container else []}}
        )
        self.is_cpu = (self.user_role.accelerator or "").lower() == CPU
        resources = self.user_container.get("resources") or {}
        self.is_amd = _AMD_GPU in (resources.get("limits") or {}) or bool(
            _AMD.search(self.user_role.accelerator or "")
        )
        self.hardware = "CPUs" if self.is_cpu else "AMD GPUs" if self.is_amd else "GPUs"
        images = self.preset.images
        pattern = images.get(self.hardware, images["GPUs"])
        self.image = use_mirror(pattern.format(release=self.release), self.args.image_registry)
        # The user's arguments, parsed as arguments of the chosen engine.
        program = self.user_container.get("command") or list(self.preset.program)
        generated = {"name": self.engine.name, "image": self.image, "command": program}
        self.command = read_command({**self.user_container, **generated})
        self.length = integer(self.command.value(self.engine.length_flag))

    def expand_role(self) -> RoleArgs:
        """Return the role with its generated template and fields."""
        role = self.user_role
        self._note_engine()
        layout = self._choose_layout()
        if layout.parallelism is not None:
            role = role.model_copy(update={"parallelism": layout.parallelism})
            sizes = layout.parallelism.model_dump(exclude_none=True)
            text = ", ".join(f"{name} {size}" for name, size in sizes.items())
            self._note("parallelism", text, layout.origin, layout.reason)
        # The generated template replaces these fields.
        role = _unset_fields(role, "engine", "gpus", *(["accelerator"] if self.is_cpu else []))
        fields = dict(self._generate_fields(role))
        return role.model_copy(update={**fields, "template": self._build_template(role, layout)})

    def _generate_fields(self, role: RoleArgs) -> Iterator[tuple[str, Any]]:
        has_ranks = role.parallelism is not None and (role.parallelism.data or 1) > 1
        if role.nodes > 1 and not has_ranks and not (role.multinode and role.multinode.launcher):
            count = role.multinode.node_count if role.multinode is not None else None
            launcher = Launcher.MULTIPROCESSING
            fields: dict[str, Any] = {} if count is None else {"node_count": count}
            yield "multinode", MultinodeArgs(**fields, launcher=launcher)
            self._note("multinode.launcher", launcher.value, RELEASE, "its image has no ray")
        if role.component_type is not ComponentType.WORKER and role.kv_transfer is None:
            yield "kv_transfer", KvTransferArgs()
            self._note("kvTransfer", "{}", LIBRARY, "decode pods load prefill's KV cache")
        size = self.model.size or self.weights_bytes
        if role.startup is None and size is not None and "startupProbe" not in self.user_container:
            yield "startup", StartupArgs(model_size=str(size))
            origin = MODEL if self.model_name in load_catalogue() else CAPACITY
            origin = origin if self.model.size is None else USER
            amount = int(quantity.parse(size))
            text = f"{-(-amount // _GIB)}Gi" if amount >= _GIB else str(size)
            reason = "5 minutes plus the time to read the weights at 200Mi/s"
            self._note("startup.modelSize", text, origin, reason)
        has_spread = "topologySpreadConstraints" in self.spec
        if role.topology_spread is None and role.nodes == 1 and not has_spread:
            yield "topology_spread", [TopologySpreadArgs(topology_key=_NODE)]
            self._note("topologySpread", _NODE, LIBRARY, "spreads replicas over nodes, if possible")

    # GPUs and parallel sizes.

    def _choose_layout(self) -> GpuLayout:
        """Return the GPUs of a pod, and the parallel sizes unless the user sets them."""
        role = self.user_role
        if self.hardware not in self.preset.images and "image" not in self.user_container:
            message = f"no {self.engine.title} image for {self.hardware} is known; set one in the "
            self._report(PRESET_WITHOUT_IMAGE, "accelerator", f"{message}template, or use vLLM")
        if self.is_cpu:
            self._note("accelerator", CPU, USER, "no GPUs")
            return GpuLayout(0)
        has_sizes = role.parallelism is not None and role.parallelism.has_sizes
        flags = [name for names in self.engine.sizes.flags.values() for name in names]
        argument_sizes = self.command.parallelism if self.command.has(*flags) else None
        gpus, reason = role.gpus or self.user_gpus, ""
        if gpus and not has_sizes and argument_sizes is None:
            self._note("gpus", str(gpus), USER, reason)
            return self._split(gpus)
        if not gpus and role.parallelism is not None and has_sizes:
            gpus = max(role.parallelism.accelerators // role.nodes, 1)
            reason = "parallelism, divided by the pods of a replica"
        elif not gpus and argument_sizes is not None:
            gpus = max(argument_sizes.count_accelerators() // role.nodes, 1)
            reason = "parallel sizes in the arguments"
        if gpus:
            self._note("gpus", str(gpus), USER, reason)
            return GpuLayout(gpus)
        if role.multinode is not None and role.nodes > 1:
            message = "is required for multi-node replicas: the number of GPUs per pod"
            self._report(FIELD_REQUIRED, "gpus", message)
            return GpuLayout(1)
        if role.accelerator is None:
            message = (
                "is required: a GPU model such as H100, or cpu; or set gpus to the number of GPUs"
            )
            self._report(FIELD_REQUIRED, "accelerator", message)
            return GpuLayout(1)
        layout = self._find_layout(role.accelerator)
        if isinstance(layout, GpuLayout):
            self._note("gpus", str(layout.gpus), layout.origin, layout.reason)
            return layout
        unknown = explain_unknown_model(self.model, self.model_name)
        if unknown is not None:
            self.findings.append(error(UNKNOWN_VALUE, ("model", "uri"), unknown))
        else:
            message = f"is required: the number of GPUs per pod; {layout}"
            self._report(FIELD_REQUIRED, "gpus", message)
        return GpuLayout(1)

    def _find_layout(self, accelerator: str) -> GpuLayout | str:
        """Return the layout of the catalogue or the capacity package, or why there is none.

        The catalogue takes precedence, so that pods do not depend on installed packages, unless the
        user sets the length of sequences: shorter sequences may need fewer GPUs.
        """
        catalogued = None
        if self.engine.name == CATALOGUE_ENGINE:
            catalogued = find_catalogue_layout(self.model_name, accelerator)
        if catalogued is not None and self.length is None:
            return catalogued
        role = self.user_role
        wide_ep = self.preset.supports_wide_ep and role.component_type is not ComponentType.WORKER
        computed = compute_layout(
            self.model, accelerator, self.engine.name, self.length, wide_ep=wide_ep
        )
        return catalogued if isinstance(computed, str) and catalogued is not None else computed

    def _split(self, gpus: int) -> GpuLayout:
        """Return a layout with a tensor rank for each GPU and a pipeline stage for each pod."""
        role, nodes = self.user_role, self.user_role.nodes
        if gpus > MAX_COUNT:
            message = f"must request at most {MAX_COUNT} GPUs per pod, got {gpus}"
            self._report(OUT_OF_RANGE, "template", message)
            return GpuLayout(1)
        if nodes > 1 and role.component_type is not ComponentType.WORKER:
            message = (
                "is required for prefill and decode roles that span nodes, for example data and "
                "dataLocal with expert"
            )
            self._report(FIELD_REQUIRED, "parallelism", message)
            return GpuLayout(gpus)
        if gpus == 1 and nodes == 1:
            return GpuLayout(gpus)
        sizes: dict[str, Any] = {"tensor": gpus} | ({"pipeline": nodes} if nodes > 1 else {})
        explicit = role.parallelism.model_dump(exclude_none=True) if role.parallelism else {}
        reason = "tensor parallelism in a pod, pipeline parallelism across pods"
        return GpuLayout(gpus, ParallelismArgs(**{**sizes, **explicit}), LIBRARY, reason)

    # The template.

    def _find_user_container(self) -> Mapping[str, Any]:
        if not self.spec.get("containers"):
            return {}
        container = find_serving_container(self.template, self.user_role.container)
        # A container with an image and another name is a sidecar.
        serving_names = (self.user_role.container, *ENGINES, "engine", "main")
        is_serving = container["name"] in serving_names or "image" not in container
        return container if is_serving else {}

    def _build_template(self, role: RoleArgs, layout: GpuLayout) -> dict[str, Any]:
        generated = self._build_container(role, layout)
        # The generated lists begin with the user's items, which keep their indexes, except ports.
        lists = {key: generated[key] for key in ("args", "env") if key in generated}
        serving = overlay(generated, {**self.user_container, **lists})
        containers = [dict(container) for container in self.spec.get("containers") or ()]
        names = [container["name"] for container in containers]
        at = names.index(serving["name"]) if serving["name"] in names else len(containers)
        spec: dict[str, Any] = {
            **self.spec,
            "containers": [*containers[:at], serving, *containers[at + 1 :]],
        }
        ports: Location = ("roles", self.position, "template", "spec", "containers", at, "ports")
        user_names = [port.get("name") for port in self.user_container.get("ports") or ()]
        self.origins |= {
            (*ports, index): (*ports, user_names.index(port.get("name")))
            if port.get("name") in user_names
            else ("roles", self.position, "port")
            for index, port in enumerate(serving["ports"])
        }
        transfer = self.user_role.kv_transfer
        volumes = [
            (
                shared_memory(spec, serving, transfer.shared_memory if transfer else None),
                "a volume in memory",
                "the engine's processes share memory; the default is 64Mi",
            )
        ]
        if self._needs_download_volume():
            volumes.append((
                empty_dir(spec, serving, "huggingface", _HUB_CACHE, {}),
                "an emptyDir",
                "a restarted container resumes its download",
            ))  # fmt: skip
        for added, value, reason in volumes:
            if added is None:
                continue
            volume, mount = added
            serving["volumeMounts"] = [*(serving.get("volumeMounts") or ()), mount]
            spec["volumes"] = [*(spec.get("volumes") or ()), volume]
            self._note(f"mount {mount['mountPath']}", value, LIBRARY, reason)
        return {**self.template, "spec": spec}

    def _needs_download_volume(self) -> bool:
        """Return whether the engine downloads the model to a folder outside of all volumes."""
        mounts = (
            str(mount.get("mountPath")) for mount in self.user_container.get("volumeMounts") or ()
        )
        has_volume = self.model.cache is not None or any(
            f"{_HUB_CACHE}/".startswith(f"{path.rstrip('/')}/") for path in mounts
        )
        engine_downloads = self.model.fetch is not Fetch.INIT_CONTAINER
        return engine_downloads and not has_volume and hub_name(self.model.uri) is not None

    def _build_container(self, role: RoleArgs, layout: GpuLayout) -> dict[str, Any]:
        """Return the generated container; its `args` and `env` begin with the user's."""
        user_container, preset = self.user_container, self.preset
        name = user_container.get("name") or role.container or self.engine.name
        container: dict[str, Any] = {"name": name, "image": self.image}
        if not user_container.get("command"):
            container["command"] = list(preset.program)
            arguments = self._generate_arguments(role, layout)
            if arguments or user_container.get("args"):
                container["args"] = [*(user_container.get("args") or ()), *arguments]
        port = role.port or self.command.port or self.engine.http.default_port
        container["ports"] = [{"name": "http", "containerPort": port}]
        self._note_generated(user_container, "ports", f"http {port}", RELEASE, "the engine's port")
        variables: dict[str, tuple[str, str]] = {}
        # Prefill and decode roles keep the default: the sidecar retries on a closed connection.
        if role.component_type is ComponentType.WORKER:
            reason = "seconds the engine keeps idle connections, longer than gateways use them"
            variables[self.engine.http.keep_alive_variable] = (KEEP_ALIVE_SECONDS, reason)
        if self.is_cpu:
            variables |= {
                key: (value, "GiB of KV cache") for key, value in preset.cpu_variables.items()
            }
        user_env = user_container.get("env") or ()
        user_names = {variable["name"] for variable in user_env}
        for key, (value, reason) in variables.items():
            if key not in user_names:
                container.setdefault("env", [*user_env]).append({"name": key, "value": value})
                self._note(f"env {key}", value, LIBRARY, reason)
        container["resources"] = self._compute_resources(role, layout)
        return container

    def _generate_arguments(self, role: RoleArgs, layout: GpuLayout) -> list[str]:
        preset, port = self.preset, self.user_role.port
        catalogued = find_catalogue_model(self.model_name)
        # Multi-node replicas do not drain: workers cannot see when their leader has finished, and
        # would always wait for the whole timeout.
        has_drain = parse_release(self.release) >= parse_release(preset.drain_since)
        can_drain = role.nodes == 1 and has_drain
        drain_arguments, grace = preset.drain_arguments, self.spec.get(GRACE_FIELD)
        if drain_arguments and isinstance(grace, int):
            seconds = min(int(drain_arguments[1]), compute_drain_seconds(grace))
            drain_arguments = (drain_arguments[0], str(seconds)) if seconds > 0 else ()
        candidates = (
            (port is not None and port != self.engine.http.default_port,
             (PORT_FLAG, str(port)), USER, "port"),
            (True, preset.arguments, RELEASE, "other pods reach the engine and its metrics"),
            (self.is_cpu or layout.limits_length, preset.length_arguments, LIBRARY,
             "the longest sequence that the cache holds"),
            (can_drain, drain_arguments, LIBRARY,
             "seconds a terminating pod gets to finish its requests"),
            (catalogued is not None and self.engine.name == CATALOGUE_ENGINE,
             catalogued.arguments if catalogued else (), MODEL,
             catalogued.source if catalogued else ""),
        )  # fmt: skip
        words: list[str] = []
        for applies, arguments, origin, reason in candidates:
            words += self._select_missing(arguments, origin, reason) if applies else ()
        return words

    def _select_missing(self, wanted: Sequence[str], origin: str, reason: str) -> list[str]:
        """Return the arguments whose flags the user does not set; note each flag's value."""
        user_args = [str(word) for word in self.user_container.get("args") or ()]
        positions = {
            normalize_flag(word.partition("=")[0]): at for at, word in enumerate(user_args)
        }
        missing: list[str] = []
        starts = [index for index, word in enumerate(wanted) if word.startswith("--")]
        for start, end in pairwise([*starts, len(wanted)]):
            words = wanted[start:end]
            index = positions.get(normalize_flag(words[0]))
            if index is None:
                missing += words
                self._note(f"args {words[0]}", " ".join(words[1:]), origin, reason)
                continue
            value = user_args[index].partition("=")[2] or "".join(user_args[index + 1 : index + 2])
            self._note(f"args {words[0]}", value, USER, f"replaces {' '.join(words)}")
        return missing

    def _compute_resources(self, role: RoleArgs, layout: GpuLayout) -> dict[str, Any]:
        limits: dict[str, Any] = {}
        if layout.gpus and not role.resource_claims and not self.user_gpus:
            limits[_AMD_GPU if self.is_amd else _NVIDIA_GPU] = str(layout.gpus)
        if self.is_cpu:
            size = int(quantity.parse(self.model.size or self.weights_bytes or 4 * _GIB))
            memory = self.preset.cpu_cache + size + 4 * _GIB
            cpus, cpu_reason = _CPUS, "CPUs of one replica"
            reason = "weights, KV cache and 4Gi"
        else:
            # vLLM runs an API server and an engine core for each copy of the model, and a worker
            # for each GPU (docs/design/arch_overview.md); each process keeps a core busy.
            sizes = role.parallelism or ParallelismArgs()
            copies = sizes.data_local or max((sizes.data or 1) // role.nodes, 1)
            cpus, cpu_reason = 2 * (2 * copies + layout.gpus), "two for each engine process"
            memory, reason = (8 + 8 * layout.gpus) * _GIB, "8Gi, and 8Gi for each GPU"
            if role.kv_cache_offloading is not None:
                memory += copies * int(quantity.parse(role.kv_cache_offloading.cpu))
                reason += ", and kvCacheOffloading.cpu"
        requests = {"cpu": str(cpus), "memory": f"{-(-memory // _GIB)}Gi"}
        user_resources = self.user_container.get("resources") or {}
        # The API server rejects a request above its limit, so lower limits are requested.
        lower_limits = {
            name: limit
            for name, limit in (user_resources.get("limits") or {}).items()
            if name in requests and quantity.parse(limit) < quantity.parse(requests[name])
        }
        user_requests = {**lower_limits, **(user_resources.get("requests") or {})}
        self._note_generated(user_requests, "cpu", requests["cpu"], LIBRARY, cpu_reason)
        self._note_generated(user_requests, "memory", requests["memory"], LIBRARY, reason)
        return {"requests": {**requests, **lower_limits}, **({"limits": limits} if limits else {})}

    # Notes and findings.

    def _note_engine(self) -> None:
        if "image" not in self.user_container:
            origin = LIBRARY if self.role_engine.is_default else USER
            self._note("engine", f"{self.engine.title} {self.release}", origin, "engine.version")
        reason = f"for {self.hardware}"
        self._note_generated(self.user_container, "image", self.image, RELEASE, reason)
        if not self.user_container.get("command"):
            self._note("command", " ".join(self.preset.program), RELEASE, "")
        self._note(
            "prefix caching, chunked prefill", "on", RELEASE, "unless arguments disable them"
        )

    def _note_generated(
        self, user_fields: Mapping[str, Any], key: str, value: str, origin: str, reason: str
    ) -> None:
        """Note the user's value of a field if it is set, else the generated one."""
        if key in user_fields:
            user_value = user_fields[key]
            is_plain = isinstance(user_value, (str, int))
            value = str(user_value) if is_plain else "as in the template"
            origin, reason = USER, "template"
        self._note(key, value, origin, reason)

    def _note(self, field_name: str, value: str, origin: str, reason: str) -> None:
        self.values.append(PresetValue(self.user_role.name, field_name, value, origin, reason))

    def _report(self, rule: Rule, role_field: str, message: str) -> None:
        self.findings.append(error(rule, ("roles", self.position, role_field), message))


_Model = TypeVar("_Model", RoleArgs, InferenceServiceArgs)


def _unset_fields(model: _Model, *names: str) -> _Model:
    copied = model.model_copy(update=dict.fromkeys(names))
    copied.model_fields_set.difference_update(names)
    return copied
