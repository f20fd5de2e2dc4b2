"""Generates the serving containers of roles.

The library generates the serving container of a role if the service has a `model`, and either the
template's container has no image, or the role or the service sets `engine`. Router roles, and roles
with `leaderTemplate` or `workerTemplate`, are unchanged. Values in the template's container take
precedence over generated ones; generated arguments are added to the container's. The source of each
value is recorded for `plan --explain`.
"""

from __future__ import annotations

import math
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
from fusioninfer_pulumi.engines.command_flags import parse_integer
from fusioninfer_pulumi.engines.engine import PORT_FLAG, Engine
from fusioninfer_pulumi.engines.engine_commands import (
    ENGINES,
    SERVING_NAMES,
    find_serving_container,
    parse_command,
)
from fusioninfer_pulumi.engines.engine_presets import (
    CATALOGUE_ENGINE,
    KEEP_ALIVE_SECONDS,
    EnginePreset,
    get_edition_defaults,
)
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, filter_errors
from fusioninfer_pulumi.kube import durations, quantity
from fusioninfer_pulumi.kube.containers import (
    build_empty_dir,
    build_shared_memory,
    overlay,
    use_mirror,
)
from fusioninfer_pulumi.kube.resource_requests import count_accelerators
from fusioninfer_pulumi.plan.service_plan import RoleEngine
from fusioninfer_pulumi.pods.kv_cache import get_shared_memory_limit
from fusioninfer_pulumi.pods.probes_and_shutdown import (
    GRACE_FIELD,
    compute_max_drain_seconds,
    compute_startup_seconds,
)
from fusioninfer_pulumi.presets.model_catalogue import (
    GpuPlan,
    compute_gpu_plan,
    find_catalogue_gpu_plan,
    find_catalogue_model,
    get_weights_size,
    load_catalogue,
    suggest_model,
)
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, OUT_OF_RANGE, UNKNOWN_VALUE

#: `accelerator` of roles without GPUs.
CPU = "cpu"
#: Default cache directory of huggingface_hub in images of vLLM and SGLang, which run as root.
_HUB_CACHE = "/root/.cache/huggingface"
#: Sources of values.
USER = "user"
MODEL = "model catalogue"
RELEASE = "engine release"
CAPACITY = "capacity"  # the capacity package
LIBRARY = "library default"

PRESET_WITHOUT_IMAGE = Rule("preset-without-image")

_NVIDIA_GPU, _AMD_GPU = "nvidia.com/gpu", "amd.com/gpu"
#: Names of AMD GPUs, such as MI300X and AMD-Instinct-MI355X-OAM.
_AMD_MODEL = re.compile(r"(?<![a-z])mi[0-9]{3}", re.IGNORECASE)
_HOSTNAME_LABEL = "kubernetes.io/hostname"
_GIB = 2**30
_CPUS = 4  # CPUs that a replica without GPUs requests


class Expansion(NamedTuple):
    """The result of `expand`."""

    args: InferenceServiceArgs  #: the spec with generated containers
    provenance: Provenance  #: where the values of the generated containers come from
    engines: tuple[RoleEngine, ...] = ()  #: engines of generated containers without a user's image
    findings: tuple[Finding, ...] = ()  #: reasons why a container cannot be generated
    incomplete_roles: frozenset[Location] = (
        frozenset()
    )  #: roles whose containers cannot be generated


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
    user_args = args
    args = _mirror_fetcher(user_args)
    model = args.model
    generated_roles = frozenset(
        position for position, role in enumerate(args.roles) if _generates_container(args, role)
    )
    if model is None or not generated_roles:
        return Expansion(args, Provenance(user_args))
    roles: list[RoleArgs] = []
    values: list[PresetValue] = []
    engines: list[RoleEngine] = []
    user_fields: dict[Location, Location] = {}
    findings: list[Finding] = []
    incomplete_roles: set[Location] = set()
    for position, role in enumerate(args.roles):
        if position not in generated_roles:
            roles.append(role)
            continue
        expander = _RoleExpander(args, model, position, role)
        roles.append(expander.expand_role())
        values += expander.values
        user_fields |= expander.user_fields
        if "image" not in expander.user_container:
            engines.append(expander.role_engine)
        findings += [finding for finding in expander.findings if finding not in findings]
        if filter_errors(expander.findings):
            incomplete_roles.add(("roles", position))
    timeout_fields, timeout_values = _extend_timeouts(args, roles)
    expanded = args.model_copy(update={"roles": roles, **timeout_fields})
    # The generated containers replace the field `engine`.
    expanded = _unset_fields(expanded, "engine")
    values += timeout_values
    provenance = Provenance(user_args, user_fields, tuple(values), generated_roles)
    return Expansion(
        expanded, provenance, tuple(engines), tuple(findings), frozenset(incomplete_roles)
    )


def _mirror_fetcher(args: InferenceServiceArgs) -> InferenceServiceArgs:
    model, registry = args.model, args.image_registry
    if model is None or registry is None or "image" in model.fetcher.model_fields_set:
        return args
    fetcher = model.fetcher.model_copy(update={"image": use_mirror(FETCHER_IMAGE, registry)})
    return args.model_copy(update={"model": model.model_copy(update={"fetcher": fetcher})})


def _extend_timeouts(
    args: InferenceServiceArgs, expanded_roles: Sequence[RoleArgs]
) -> tuple[dict[str, Any], list[PresetValue]]:
    """Return `wait` and `rollout` with longer timeouts if needed, and values for `--explain`."""
    longest_startup = 0
    for user_role, role in zip(args.roles, expanded_roles, strict=True):
        if role.startup is not None and role.startup is not user_role.startup:
            longest_startup = max(longest_startup, compute_startup_seconds(role.startup))
    if longest_startup <= (durations.parse_duration(DEFAULT_TIMEOUT) or 0):
        return {}, []
    minutes = -(-longest_startup // 60)  # rounded up
    timeout = f"{minutes + 10}m"
    reason = f"{minutes}m to start a replica (from startup.modelSize), plus 10m"
    fields = {
        name: user_value.model_copy(update={"timeout": timeout})
        for name, user_value in (("wait", args.wait), ("rollout", args.rollout))
        if "timeout" not in user_value.model_fields_set
    }
    # Timeouts are fields of the service, so the name of the role is empty.
    values = [PresetValue("", f"{name}.timeout", timeout, LIBRARY, reason) for name in fields]
    return fields, values


@dataclass
class _RoleExpander:
    """Generates the template and fields of one role; records findings and explained values."""

    args: InferenceServiceArgs
    model: ModelArgs
    position: int
    user_role: RoleArgs
    values: list[PresetValue] = field(default_factory=list)
    user_fields: dict[Location, Location] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        engine_args = self.user_role.engine or self.args.engine or EngineArgs()
        self.engine: Engine = ENGINES[engine_args.name.value]
        presets = get_edition_defaults(self.args.edition).presets
        self.preset: EnginePreset = presets[engine_args.name.value]
        self.release = engine_args.version or self.preset.release
        name, is_default = self.user_role.name, engine_args.version is None
        self.role_engine = RoleEngine(name, self.engine.title, self.release, is_default)
        self.model_name = hub_name(self.model.uri) or ""
        self.weights_size = get_weights_size(self.model)
        self.template: Mapping[str, Any] = self.user_role.template or {}
        self.spec: Mapping[str, Any] = self.template.get("spec") or {}
        self.user_container = self._find_user_container()
        user_containers = [self.user_container] if self.user_container else []
        self.user_gpus = count_accelerators({"spec": {"containers": user_containers}})
        accelerator = self.user_role.accelerator or ""
        limits = (self.user_container.get("resources") or {}).get("limits") or {}
        self.is_cpu = accelerator.lower() == CPU
        self.is_amd = _AMD_GPU in limits or _AMD_MODEL.search(accelerator) is not None
        self.hardware = "AMD GPUs" if self.is_amd else "GPUs"
        if self.is_cpu:
            self.hardware = "CPUs"
        images = self.preset.images
        # If there is no image for the hardware, `_plan_gpus` reports an error.
        image_pattern = images.get(self.hardware, images["GPUs"])
        self.image = use_mirror(
            image_pattern.format(release=self.release), self.args.image_registry
        )
        # The user's arguments, parsed as arguments of the chosen engine.
        program = self.user_container.get("command") or list(self.preset.program)
        generated = {"name": self.engine.name, "image": self.image, "command": program}
        self.command = parse_command({**self.user_container, **generated})
        #: Tokens of the longest sequence, or None if the user's arguments do not limit them.
        self.length_limit = parse_integer(self.command.value(self.engine.length_flag))

    def expand_role(self) -> RoleArgs:
        """Return the role with its generated template and fields."""
        role = self.user_role
        self._note_engine()
        gpu_plan = self._plan_gpus()
        if gpu_plan.parallelism is not None:
            role = role.model_copy(update={"parallelism": gpu_plan.parallelism})
            sizes = gpu_plan.parallelism.model_dump(exclude_none=True)
            text = ", ".join(f"{name} {size}" for name, size in sizes.items())
            self._note("parallelism", text, gpu_plan.source, gpu_plan.reason)
        # The generated template replaces these fields.
        role = _unset_fields(role, "engine", "gpus")
        if self.is_cpu:
            role = _unset_fields(role, "accelerator")
        fields = dict(self._generate_fields(role))
        return role.model_copy(update={**fields, "template": self._build_template(role, gpu_plan)})

    def _generate_fields(self, role: RoleArgs) -> Iterator[tuple[str, Any]]:
        """Yield the fields of the role that the user leaves to the library, with their values."""
        has_ranks = role.parallelism is not None and (role.parallelism.data or 1) > 1
        has_launcher = role.multinode is not None and role.multinode.launcher is not None
        if role.nodes > 1 and not has_ranks and not has_launcher:
            launcher = Launcher.MULTIPROCESSING
            multinode = role.multinode or MultinodeArgs()
            yield "multinode", multinode.model_copy(update={"launcher": launcher})
            self._note("multinode.launcher", launcher.value, RELEASE, "the image has no Ray")
        if role.component_type is not ComponentType.WORKER and role.kv_transfer is None:
            yield "kv_transfer", KvTransferArgs()
            self._note("kvTransfer", "{}", LIBRARY, "decode pods load prefill's KV cache")
        size = self.weights_size
        if role.startup is None and size is not None and "startupProbe" not in self.user_container:
            yield "startup", StartupArgs(model_size=quantity.write(size))
            if self.model.size is not None:
                text, source = str(self.model.size), USER
            else:
                text = f"{math.ceil(size / _GIB)}Gi"
                source = MODEL if self.model_name in load_catalogue() else CAPACITY
            reason = "5 minutes plus the time to read the weights at 200Mi/s"
            self._note("startup.modelSize", text, source, reason)
        has_spread = "topologySpreadConstraints" in self.spec
        if role.topology_spread is None and role.nodes == 1 and not has_spread:
            yield "topology_spread", [TopologySpreadArgs(topology_key=_HOSTNAME_LABEL)]
            reason = "spreads replicas over nodes, if possible"
            self._note("topologySpread", _HOSTNAME_LABEL, LIBRARY, reason)

    # GPUs and parallel sizes.

    def _plan_gpus(self) -> GpuPlan:
        """Return the GPUs of a pod (1 after an error), and the sizes if the user sets none."""
        role = self.user_role
        if self.hardware not in self.preset.images and "image" not in self.user_container:
            message = (
                f"no {self.engine.title} image for {self.hardware} is known; set one in the "
                "template, or use vLLM"
            )
            self._report(PRESET_WITHOUT_IMAGE, "accelerator", message)
        if self.is_cpu:
            self._note("accelerator", CPU, USER, "no GPUs")
            return GpuPlan(0)
        has_sizes = role.parallelism is not None and role.parallelism.has_sizes
        flags = [name for names in self.engine.sizes.flags.values() for name in names]
        argument_sizes = self.command.parallelism if self.command.has(*flags) else None
        user_gpus = role.gpus or self.user_gpus
        if user_gpus:
            self._note("gpus", str(user_gpus), USER, "")
            if has_sizes or argument_sizes is not None:
                return GpuPlan(user_gpus)
            return self._split_model(user_gpus)
        if role.parallelism is not None and has_sizes:
            gpus = max(role.parallelism.accelerators // role.nodes, 1)
            self._note("gpus", str(gpus), USER, "parallelism, divided by the pods of a replica")
            return GpuPlan(gpus)
        if argument_sizes is not None:
            gpus = max(argument_sizes.count_accelerators() // role.nodes, 1)
            self._note("gpus", str(gpus), USER, "parallel sizes in the arguments")
            return GpuPlan(gpus)
        if role.multinode is not None and role.nodes > 1:
            message = "is required for multi-node replicas: the number of GPUs per pod"
            self._report(FIELD_REQUIRED, "gpus", message)
            return GpuPlan(1)
        if role.accelerator is None:
            message = (
                "is required: a GPU model such as H100, or cpu; or set gpus to the number of GPUs"
            )
            self._report(FIELD_REQUIRED, "accelerator", message)
            return GpuPlan(1)
        gpu_plan = self._find_gpu_plan(role.accelerator)
        if isinstance(gpu_plan, GpuPlan):
            self._note("gpus", str(gpu_plan.gpus), gpu_plan.source, gpu_plan.reason)
            return gpu_plan
        similar = suggest_model(self.model)
        if similar is not None:
            message = (
                f"unknown model {self.model_name}; did you mean {similar}? Otherwise set gpus or "
                "model.config"
            )
            self.findings.append(error(UNKNOWN_VALUE, ("model", "uri"), message))
        else:
            message = f"is required: the number of GPUs per pod, because {gpu_plan}"
            self._report(FIELD_REQUIRED, "gpus", message)
        return GpuPlan(1)

    def _find_gpu_plan(self, accelerator: str) -> GpuPlan | str:
        """Return the GPU plan of the catalogue or the capacity package, or why there is none.

        The catalogue takes precedence, so that pods do not depend on installed packages. If the
        user limits the length of sequences, the capacity package takes precedence, because shorter
        sequences may need fewer GPUs.
        """
        catalogue_plan = None
        if self.engine.name == CATALOGUE_ENGINE:
            catalogue_plan = find_catalogue_gpu_plan(self.model_name, accelerator)
        if catalogue_plan is not None and self.length_limit is None:
            return catalogue_plan
        is_worker = self.user_role.component_type is ComponentType.WORKER
        wide_ep = self.preset.supports_wide_ep and not is_worker
        computed_plan = compute_gpu_plan(
            self.model, accelerator, self.engine.name, self.length_limit, wide_ep=wide_ep
        )
        if catalogue_plan is not None and isinstance(computed_plan, str):
            return catalogue_plan
        return computed_plan

    def _split_model(self, gpus: int) -> GpuPlan:
        """Return a plan with a tensor rank for each GPU and a pipeline stage for each pod."""
        role, nodes = self.user_role, self.user_role.nodes
        if gpus > MAX_COUNT:
            message = f"must request at most {MAX_COUNT} GPUs per pod, got {gpus}"
            self._report(OUT_OF_RANGE, "template", message)
            return GpuPlan(1)
        if nodes > 1 and role.component_type is not ComponentType.WORKER:
            message = (
                "is required for prefill and decode roles that span nodes, for example data and "
                "dataLocal with expert"
            )
            self._report(FIELD_REQUIRED, "parallelism", message)
            return GpuPlan(gpus)
        if gpus == 1 and nodes == 1:
            return GpuPlan(gpus)
        fields: dict[str, Any] = {"tensor": gpus}
        if nodes > 1:
            fields["pipeline"] = nodes
        if role.parallelism is not None:
            # The user's fields that are not sizes, such as `expert`.
            fields |= role.parallelism.model_dump(exclude_none=True)
        reason = "tensor parallelism in a pod, pipeline parallelism across pods"
        return GpuPlan(gpus, ParallelismArgs(**fields), LIBRARY, reason)

    # The template.

    def _find_user_container(self) -> Mapping[str, Any]:
        if not self.spec.get("containers"):
            return {}
        container = find_serving_container(self.template, self.user_role.container)
        serving_names = (self.user_role.container, *SERVING_NAMES)
        # A container that has an image and none of these names is a sidecar.
        is_sidecar = "image" in container and container["name"] not in serving_names
        return {} if is_sidecar else container

    def _build_template(self, role: RoleArgs, gpu_plan: GpuPlan) -> dict[str, Any]:
        generated = self._build_container(role, gpu_plan)
        # The generated `args` and `env` already begin with the user's items.
        merged_lists = {key: generated[key] for key in ("args", "env") if key in generated}
        serving = overlay(generated, {**self.user_container, **merged_lists})
        containers = [dict(container) for container in self.spec.get("containers") or ()]
        names = [container["name"] for container in containers]
        position = names.index(serving["name"]) if serving["name"] in names else len(containers)
        containers[position : position + 1] = [serving]
        spec: dict[str, Any] = {**self.spec, "containers": containers}
        # Unlike `args` and `env`, the user's ports may move to other indexes in the generated list.
        role_location: Location = ("roles", self.position)
        ports = (*role_location, "template", "spec", "containers", position, "ports")
        # Ports are merged by name; if one has none, the user's ports replace the generated one.
        user_ports = [port.get("name") or port for port in self.user_container.get("ports") or ()]
        for index, port in enumerate(serving["ports"]):
            user_field, name_or_port = (*role_location, "port"), port.get("name") or port
            if name_or_port in user_ports:
                user_field = (*ports, user_ports.index(name_or_port))
            self.user_fields |= {(*ports, index): user_field}
        size_limit = get_shared_memory_limit(self.user_role)
        reason = "the engine's processes share memory; the default is 64Mi"
        added_volumes = [
            (build_shared_memory(spec, serving, size_limit), "a volume in memory", reason)
        ]
        if self._needs_download_volume():
            download_directory = build_empty_dir(spec, serving, "huggingface", _HUB_CACHE, {})
            reason = "a restarted container resumes its download"
            added_volumes.append((download_directory, "an emptyDir", reason))
        for addition, value, reason in added_volumes:
            if addition is not None:
                volume, mount = addition
                serving["volumeMounts"] = [*(serving.get("volumeMounts") or ()), mount]
                spec["volumes"] = [*(spec.get("volumes") or ()), volume]
                self._note(f"mount {mount['mountPath']}", value, LIBRARY, reason)
        return {**self.template, "spec": spec}

    def _needs_download_volume(self) -> bool:
        """Return whether the engine downloads the model to a directory outside of all volumes."""
        if self.model.fetch is Fetch.INIT_CONTAINER or hub_name(self.model.uri) is None:
            return False
        mounts = self.user_container.get("volumeMounts") or ()
        directories = [f"{str(mount.get('mountPath')).rstrip('/')}/" for mount in mounts]
        has_mount = any(f"{_HUB_CACHE}/".startswith(directory) for directory in directories)
        return self.model.cache is None and not has_mount

    def _build_container(self, role: RoleArgs, gpu_plan: GpuPlan) -> dict[str, Any]:
        """Return the generated container; its `args` and `env` begin with the user's."""
        user_container, preset = self.user_container, self.preset
        name = user_container.get("name") or role.container or self.engine.name
        container: dict[str, Any] = {"name": name, "image": self.image}
        if not user_container.get("command"):
            container["command"] = list(preset.program)
            arguments = self._generate_arguments(role, gpu_plan)
            if arguments or user_container.get("args"):
                container["args"] = [*(user_container.get("args") or ()), *arguments]
        port = role.port or self.command.port or self.engine.http.default_port
        container["ports"] = [{"name": "http", "containerPort": port}]
        self._note_generated(user_container, "ports", f"http {port}", RELEASE, "the engine's port")
        added_env: list[dict[str, str]] = []
        # Prefill and decode roles keep the default: the sidecar retries on a closed connection.
        if role.component_type is ComponentType.WORKER:
            reason = "seconds the engine keeps idle connections, longer than gateways use them"
            variable = self.engine.http.keep_alive_variable
            added_env += self._select_missing_variable(variable, KEEP_ALIVE_SECONDS, reason)
        if self.is_cpu:
            for variable, value in preset.cpu_variables.items():
                added_env += self._select_missing_variable(variable, value, "GiB of KV cache")
        if added_env:
            container["env"] = [*(user_container.get("env") or ()), *added_env]
        container["resources"] = self._compute_resources(role, gpu_plan)
        return container

    def _select_missing_variable(self, name: str, value: str, reason: str) -> list[dict[str, str]]:
        if any(variable["name"] == name for variable in self.user_container.get("env") or ()):
            return []
        self._note(f"env {name}", value, LIBRARY, reason)
        return [{"name": name, "value": value}]

    def _generate_arguments(self, role: RoleArgs, gpu_plan: GpuPlan) -> list[str]:
        """Return the arguments to add to the user's."""
        preset, port = self.preset, self.user_role.port
        arguments: list[str] = []
        if port is not None and port != self.engine.http.default_port:
            arguments += self._select_missing_arguments((PORT_FLAG, str(port)), USER, "port")
        reason = "other pods reach the engine and its metrics"
        arguments += self._select_missing_arguments(preset.arguments, RELEASE, reason)
        if self.is_cpu or gpu_plan.limits_length:
            reason = "the longest sequence that the cache holds"
            arguments += self._select_missing_arguments(preset.length_arguments, LIBRARY, reason)
        # Multi-node replicas do not drain: workers cannot see when their leader has finished, and
        # would always wait for the whole timeout.
        has_drain = parse_release(self.release) >= parse_release(preset.drain_since)
        if has_drain and role.nodes == 1:
            reason = "seconds a terminating pod gets to finish its requests"
            arguments += self._select_missing_arguments(
                self._get_drain_arguments(), LIBRARY, reason
            )
        catalogue_model = find_catalogue_model(self.model_name)
        if catalogue_model is not None and self.engine.name == CATALOGUE_ENGINE:
            arguments += self._select_missing_arguments(
                catalogue_model.arguments, MODEL, catalogue_model.source
            )
        return arguments

    def _get_drain_arguments(self) -> tuple[str, ...]:
        """Return the preset's drain arguments, shortened to the user's grace period if needed."""
        grace = self.spec.get(GRACE_FIELD)
        if not self.preset.drain_arguments or not isinstance(grace, int):
            return self.preset.drain_arguments
        flag, default_seconds = self.preset.drain_arguments
        seconds = min(int(default_seconds), compute_max_drain_seconds(grace))
        return (flag, str(seconds)) if seconds > 0 else ()

    def _select_missing_arguments(
        self, wanted: Sequence[str], source: str, reason: str
    ) -> list[str]:
        """Return the arguments whose flags the user does not set; note each flag's value."""
        missing: list[str] = []
        starts = [index for index, word in enumerate(wanted) if word.startswith("--")]
        for start, end in pairwise([*starts, len(wanted)]):
            flag, *values = wanted[start:end]
            if self.command.has(flag):
                user_value = self.command.value(flag) or ""
                replaced = " ".join([flag, *values])
                self._note(f"args {flag}", user_value, USER, f"replaces {replaced}")
            else:
                missing += [flag, *values]
                self._note(f"args {flag}", " ".join(values), source, reason)
        return missing

    def _compute_resources(self, role: RoleArgs, gpu_plan: GpuPlan) -> dict[str, Any]:
        limits: dict[str, Any] = {}
        if gpu_plan.gpus and not role.resource_claims and not self.user_gpus:
            limits[_AMD_GPU if self.is_amd else _NVIDIA_GPU] = str(gpu_plan.gpus)
        if self.is_cpu:
            memory = self.preset.cpu_cache + int(self.weights_size or 4 * _GIB) + 4 * _GIB
            memory_reason = "weights, KV cache and 4Gi"
            cpus, cpu_reason = _CPUS, "CPUs of one replica"
        else:
            # vLLM runs an API server and an engine core for each copy of the model, and a worker
            # for each GPU (docs/design/arch_overview.md); each process keeps a core busy.
            sizes = role.parallelism or ParallelismArgs()
            copies = sizes.data_local or max((sizes.data or 1) // role.nodes, 1)
            cpus, cpu_reason = 2 * (2 * copies + gpu_plan.gpus), "two for each engine process"
            memory = (8 + 8 * gpu_plan.gpus) * _GIB
            memory_reason = "8Gi, and 8Gi for each GPU"
            if role.kv_cache_offloading is not None:
                memory += copies * int(quantity.parse(role.kv_cache_offloading.cpu))
                memory_reason += ", and kvCacheOffloading.cpu"
        requests = {"cpu": str(cpus), "memory": f"{-(-memory // _GIB)}Gi"}
        user_resources = self.user_container.get("resources") or {}
        # The API server rejects a request above its limit, so a user's limit that is lower than the
        # generated request becomes the request.
        lower_limits = {
            name: limit
            for name, limit in (user_resources.get("limits") or {}).items()
            if name in requests and quantity.parse(limit) < quantity.parse(requests[name])
        }
        user_requests = {**lower_limits, **(user_resources.get("requests") or {})}
        self._note_generated(user_requests, "cpu", requests["cpu"], LIBRARY, cpu_reason)
        self._note_generated(user_requests, "memory", requests["memory"], LIBRARY, memory_reason)
        resources: dict[str, Any] = {"requests": {**requests, **lower_limits}}
        if limits:
            resources["limits"] = limits
        return resources

    # Notes and findings.

    def _note_engine(self) -> None:
        if "image" not in self.user_container:
            source, reason = (
                (LIBRARY, "engine.version is not set")
                if self.role_engine.is_default
                else (USER, "engine.version")
            )
            self._note("engine", f"{self.engine.title} {self.release}", source, reason)
        reason = f"for {self.hardware}"
        self._note_generated(self.user_container, "image", self.image, RELEASE, reason)
        if not self.user_container.get("command"):
            self._note("command", " ".join(self.preset.program), RELEASE, "")
        self._note(
            "prefix caching, chunked prefill", "on", RELEASE, "unless arguments disable them"
        )

    def _note_generated(
        self, user_fields: Mapping[str, Any], key: str, value: str, source: str, reason: str
    ) -> None:
        """Note the user's value of a field if it is set, otherwise the generated one."""
        if key not in user_fields:
            self._note(key, value, source, reason)
        elif isinstance(user_fields[key], (str, int)):
            self._note(key, str(user_fields[key]), USER, "template")
        else:
            self._note(key, "as in the template", USER, "template")

    def _note(self, field_name: str, value: str, source: str, reason: str) -> None:
        self.values.append(PresetValue(self.user_role.name, field_name, value, source, reason))

    def _report(self, rule: Rule, role_field: str, message: str) -> None:
        self.findings.append(error(rule, ("roles", self.position, role_field), message))


_Model = TypeVar("_Model", RoleArgs, InferenceServiceArgs)


def _unset_fields(model: _Model, *names: str) -> _Model:
    copied = model.model_copy(update=dict.fromkeys(names))
    copied.model_fields_set.difference_update(names)
    return copied
