"""Adds the model to pods, and builds its PersistentVolumeClaim and warm-up Job."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.model import (
    FETCHER_USER,
    CacheArgs,
    Fetch,
    ModelArgs,
    ModelSource,
    S3Args,
    StorageArgs,
    hub_name,
    parse_model_uri,
)
from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.engines.command_editing import select_new_arguments
from fusioninfer_pulumi.engines.engine_commands import ENGINES
from fusioninfer_pulumi.engines.model_arguments import (
    ServedModel,
    build_model_arguments,
    check_model_arguments,
)
from fusioninfer_pulumi.findings import Finding, warning
from fusioninfer_pulumi.kube import durations, labels, object_names
from fusioninfer_pulumi.kube.containers import (
    add_env,
    add_mounts,
    build_security_context,
    choose_free_name,
)
from fusioninfer_pulumi.kube.object_metadata import (
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
)
from fusioninfer_pulumi.kube.pulumi_outputs import content_digest, replace_outputs
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods, explain_unknown_engine
from fusioninfer_pulumi.rules.common import ENGINE_UNKNOWN

#: Launchers that start the engine on workers.
_ENGINE_LAUNCHERS = (Launcher.MULTIPROCESSING, Launcher.DATA_PARALLEL)

#: Variables of huggingface_hub: the download directory and the token.
HF_HOME_ENV, HF_TOKEN_ENV = "HF_HOME", "HF_TOKEN"

_VOLUME, _CACHE_VOLUME, _ADAPTER_VOLUME = "model", "model-cache", "model-adapters"


@dataclass
class ModelFiles:
    """Volumes, mounts, downloads and variables of a pod for its model.

    Attributes:
        init_downloads: Source, directory and mount of each download in an init container.
        warm_up_downloads: Source and directory of each download in the warm-up Job.
    """

    volumes: dict[str, Manifest] = field(default_factory=dict)
    mounts: list[Manifest] = field(default_factory=list)
    init_downloads: list[tuple[str, str, Manifest]] = field(default_factory=list)
    warm_up_downloads: list[tuple[str, str]] = field(default_factory=list)
    env: list[Manifest] = field(default_factory=list)


def plan_model_files(service: str, model: ModelArgs) -> tuple[ModelFiles, ServedModel]:
    """Plan where the model and its adapters are stored, and what the engine serves."""
    source = parse_model_uri(model.uri)
    assert source is not None, "the model validates the URI"
    files = ModelFiles()
    has_warm_up = model.cache is not None and model.cache.warm_up
    if model.cache is not None:
        claim = {"claimName": get_cache_claim_name(service, model.cache)}
        files.volumes[_CACHE_VOLUME] = {"persistentVolumeClaim": claim}
        if not model.cache.mount_model:
            files.mounts.append(_build_cache_mount(model.cache, model.cache.mount_path))
        if model.cache.compile_cache:
            path = f"{model.cache.mount_path}-compiled"
            files.mounts.append({"name": _CACHE_VOLUME, "mountPath": path, "subPath": "compiled"})
            variables = [engine.compile_cache_variable for engine in ENGINES.values()]
            files.env += [{"name": name, "value": path} for name in variables if name]
    engine_fetches = (
        source.scheme == "hf" and model.fetch is not Fetch.INIT_CONTAINER and not has_warm_up
    )
    if engine_fetches:
        served_model = ServedModel(source.target, revision=source.revision, name=model.name)
        if model.cache is not None:
            files.env.append({"name": HF_HOME_ENV, "value": model.cache.mount_path})
        if model.token_secret is not None:
            secret = model.token_secret
            files.env.append(_build_secret_variable(HF_TOKEN_ENV, secret.name, secret.key))
    else:
        path = _mount_or_download(files, model, source, model.mount_path, _VOLUME)
        if source.scheme in ("pvc", "oci") and model.path is not None:
            path += f"/{model.path}"
        # Without a name, the engine would serve the model under its path.
        default_name = hub_name(model.uri) or service
        served_model = ServedModel(path, name=model.name, default_name=default_name)
    if model.lora is None:
        return files, served_model
    adapters = _plan_adapters(files, model, engine_fetches=engine_fetches)
    limits = model.lora.model_dump(exclude={"adapters"}, exclude_none=True)
    return files, replace(served_model, adapters=adapters, limits=limits)


def _build_secret_variable(name: str, secret: str, key: str) -> Manifest:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def get_cache_claim_name(service: str, cache: CacheArgs) -> Any:
    """Return the name of a cache's claim: the user's, which may be an Output, or a new claim's."""
    if cache.storage is None:
        return cache.claim_name
    modes = ",".join(sorted(mode.value for mode in cache.storage.access_modes))
    storage_class = replace_outputs(cache.storage.storage_class_name)
    # These fields of a claim are immutable, so a change needs a claim with another name.
    digest = hashlib.sha256(f"{storage_class or ''} {modes}".encode()).hexdigest()
    return object_names.model_cache(service, digest[:6])


def _plan_adapters(files: ModelFiles, model: ModelArgs, *, engine_fetches: bool) -> dict[str, str]:
    """Mount or download the adapters; return the repository or path of each, by adapter name."""
    adapters: dict[str, str] = {}
    # Path of each source's files, or its repository if the engine downloads it. Adapters may share
    # a source.
    paths: dict[ModelSource, str] = {}
    for index, adapter in enumerate(model.lora.adapters if model.lora else ()):
        source = parse_model_uri(adapter.uri)
        assert source is not None, "the model validates the URI"
        if engine_fetches and source.scheme == "hf" and source.revision is None:
            # Engines download only the default revision of an adapter.
            paths[source] = source.target
        if source not in paths:
            path = f"{model.mount_path}-adapters/{_slugify(adapter.name)}"
            if path in adapters.values():
                # Another adapter's name has the same slug.
                path = f"{path}-{index}"
            volume = f"model-adapter-{index}"
            paths[source] = _mount_or_download(files, model, source, path, volume, is_adapter=True)
        adapters[adapter.name] = paths[source]
    return adapters


def _mount_or_download(
    files: ModelFiles,
    model: ModelArgs,
    source: ModelSource,
    path: str,
    volume: str,
    *,
    is_adapter: bool = False,
) -> str:
    """Mount or download a model or adapter that the engine does not download; return its path.

    Adapters that an init container downloads share one volume, with a directory each.
    """
    if source.scheme in ("pvc", "oci"):
        _mount(files, volume, source, path)
        return path
    if model.cache is not None and model.cache.warm_up:
        return _add_to_warm_up(files, source, model.cache, path)
    name = _ADAPTER_VOLUME if is_adapter else _VOLUME
    files.volumes[name] = {"emptyDir": {}}
    writable_mount = {"name": name, "mountPath": path}
    if is_adapter:
        writable_mount["subPath"] = path.rpartition("/")[2]
    files.mounts.append({**writable_mount, "readOnly": True})
    files.init_downloads.append((source.fetch_uri, path, writable_mount))
    return path


def _mount(files: ModelFiles, volume: str, source: ModelSource, path: str) -> None:
    mount: Manifest = {"name": volume, "mountPath": path, "readOnly": True}
    if source.scheme == "pvc":
        # The claim itself is not read-only, because other pods may write to it.
        files.volumes[volume] = {"persistentVolumeClaim": {"claimName": source.target}}
        if source.path:
            mount["subPath"] = source.path
    else:
        files.volumes[volume] = {"image": {"reference": source.target}}
    files.mounts.append(mount)


def _build_cache_mount(cache: CacheArgs, path: str) -> Manifest:
    read_only = {"readOnly": True} if cache.warm_up and cache.read_only else {}
    return {"name": _CACHE_VOLUME, "mountPath": path, **read_only}


def _add_to_warm_up(files: ModelFiles, source: ModelSource, cache: CacheArgs, path: str) -> str:
    """Add a source to the warm-up Job, and return its path in the serving pods."""
    # A new revision is downloaded next to the one in use, so each has its own directory. Those that
    # `_SCRIPT_IN_PLACE` fills have other names, because `_SCRIPT` treats every existing directory
    # as complete.
    suffix = " mounted" if cache.mount_model else ""
    digest = hashlib.sha256(f"{source.fetch_uri}{suffix}".encode()).hexdigest()[:8]
    name = f"{_slugify(source.target)}-{digest}"
    directory = f"{cache.mount_path}/{name}"
    if (source.fetch_uri, directory) not in files.warm_up_downloads:
        files.warm_up_downloads.append((source.fetch_uri, directory))
    if not cache.mount_model:
        return directory
    files.mounts.append({**_build_cache_mount(cache, path), "subPath": name})
    return path


def _slugify(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "x"


#: Prefix of the names of containers that download files.
FETCHER_PREFIX = "fetch-model-"
_FETCHER_RESOURCES = {"requests": {"cpu": "100m", "memory": "512Mi"}}


def build_fetch_container(
    model: ModelArgs,
    name: str,
    command: Sequence[str],
    sources: Sequence[tuple[str, str]],
    mounts: list[Manifest],
) -> Manifest:
    """Build a container that downloads each source into its directory."""
    env = build_fetch_env(model, {source.partition("://")[0] for source, _ in sources})
    return {
        "name": name,
        "image": model.fetcher.image,
        "command": list(command),
        "args": [word for pair in sources for word in pair],
        **({"env": env} if env else {}),
        "resources": dict(model.fetcher.resources or _FETCHER_RESOURCES),
        "securityContext": dict(
            model.fetcher.security_context or build_security_context(FETCHER_USER)
        ),
        "volumeMounts": mounts,
    }


def build_fetch_env(model: ModelArgs, schemes: Collection[str]) -> list[Manifest]:
    """Return a fetcher's variables: the user's, and those that sources with these schemes need.

    The variables for `s3` are KServe's.
    """
    env = [dict(variable) for variable in model.fetcher.env]
    if model.token_secret is not None and "hf" in schemes:
        secret = model.token_secret
        env.append(_build_secret_variable(HF_TOKEN_ENV, secret.name, secret.key))
    s3 = model.s3 if "s3" in schemes else S3Args()
    if s3.secret_name is not None:
        env += [
            _build_secret_variable("AWS_ACCESS_KEY_ID", s3.secret_name, s3.access_key_id_key),
            _build_secret_variable(
                "AWS_SECRET_ACCESS_KEY", s3.secret_name, s3.secret_access_key_key
            ),
        ]
    s3_settings = {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_DEFAULT_REGION": s3.region}
    env += [
        {"name": name, "value": value} for name, value in s3_settings.items() if value is not None
    ]
    return env


def add_model(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Mount or download the model's files, and pass the model to the engine."""
    model = ctx.args.model
    if model is None:
        return pods, []
    files, served_model = plan_model_files(ctx.meta.service, model)
    mount_source = (
        "the mount of the model's files; remove yours, or set model.mountPath "
        "(model.cache.mountPath for the cache)"
    )
    # Workers may also run the engine, except Ray workers, which only join the Ray cluster.
    multinode = ctx.role.multinode
    starts_on_workers = multinode is not None and multinode.launcher in _ENGINE_LAUNCHERS
    findings: list[Finding] = []
    for pod in pods.all:
        paths = [mount["mountPath"] for mount in files.mounts]
        conflicts = [*pod.find_conflicts(paths, mount_source, files.env, "the service's model")]
        if conflicts:
            findings += conflicts
            continue
        changed = pod
        starts_engine = pod.has_command or starts_on_workers
        if pod.is_leader or (starts_engine and pod.command.engine is not None):
            changed, problems = _add_model_arguments(pod, served_model)
            findings += problems
        pods = pods.with_pod(_add_files(changed, model, files))
    return pods, findings


def _add_model_arguments(pod: Pod, served_model: ServedModel) -> tuple[Pod, list[Finding]]:
    command = pod.command
    if command.engine is None:
        return pod, [
            warning(
                ENGINE_UNKNOWN,
                pod.command_path,
                f"the library cannot pass the model, because {explain_unknown_engine(command)}; "
                f"configure the container to serve {served_model.model}",
            )
        ]
    conflicts = check_model_arguments(command, command.engine, served_model)
    problems = [finding.with_location(*pod.command_path) for finding in conflicts]
    if problems:
        return pod, problems
    arguments, positional = build_model_arguments(command, command.engine, served_model)
    if positional is None and not select_new_arguments(command, arguments):
        return pod, []
    return pod.with_arguments(arguments, "cannot set the model", model=positional)


def _add_files(pod: Pod, model: ModelArgs, files: ModelFiles) -> Pod:
    spec = pod.spec
    # The user's template may have volumes of the same names.
    new_names = {name: choose_free_name(name, spec.get("volumes")) for name in files.volumes}
    mounts = [{**mount, "name": new_names[mount["name"]]} for mount in files.mounts]
    volumes = [{"name": new_names[name], **source} for name, source in files.volumes.items()]
    if files.init_downloads:
        containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
        fetchers = [
            build_fetch_container(
                model,
                choose_free_name(f"{FETCHER_PREFIX}{index}", containers),
                model.fetcher.command,
                [(source, directory)],
                [{**mount, "name": new_names[mount["name"]]}],
            )
            for index, (source, directory, mount) in enumerate(files.init_downloads)
        ]
        pod = pod.append("initContainers", fetchers, ("model", "fetcher"))
    if model.image_pull_secrets:
        user_names = {secret.get("name") for secret in spec.get("imagePullSecrets") or ()}
        added = [{"name": name} for name in model.image_pull_secrets if name not in user_names]
        pod = pod.append("imagePullSecrets", added, ("model", "imagePullSecrets"))
    pod = pod.with_container(lambda container: add_mounts(add_env(container, files.env), mounts))
    return pod.add_volumes(volumes)


#: Characters of the digest in the warm-up Job's name.
DIGEST_LENGTH = 8

# A directory gets its final name only when its download is complete, so no pod finds an incomplete
# model, and a second attempt starts over.
_SCRIPT = """\
set -eu
while [ $# -gt 0 ]; do
  if [ -e "$2" ]; then
    echo "$2 is there already"
  else
    rm -rf "$2.part"
    {fetch} "$1" "$2.part"
    mv "$2.part" "$2"
  fi
  shift 2
done"""

# The kubelet creates the directory that a pod mounts, so a finished download cannot be renamed to
# it. The directory is filled in place, and a marker file next to it shows that it is complete.
_SCRIPT_IN_PLACE = """\
set -eu
while [ $# -gt 0 ]; do
  if [ -e "$2.complete" ]; then
    echo "$2 is complete already"
  else
    mkdir -p "$2"
    {fetch} "$1" "$2"
    touch "$2.complete"
  fi
  shift 2
done"""


class ModelPlan(NamedTuple):
    """The plan of a model's cache; all fields are None if the model has no cache."""

    claim: Any = None  #: name of the PersistentVolumeClaim
    storage: StorageArgs | None = None  #: storage of a generated claim; None for the user's claim
    warm_up: Manifest | None = None  #: spec of the warm-up Job, or None if there is none


def plan_model_cache(service: str, args: InferenceServiceArgs) -> ModelPlan:
    """Plan the PersistentVolumeClaim and the warm-up Job of a model's cache."""
    model = args.model
    cache = model.cache if model is not None else None
    if model is None or cache is None:
        return ModelPlan()
    claim = get_cache_claim_name(service, cache)
    warm_up = _build_job_spec(service, args, model, cache) if cache.warm_up else None
    return ModelPlan(claim, cache.storage, warm_up)


def build_model_cache(meta: ServiceMeta, model: ModelPlan) -> Iterator[Manifest]:
    """Build the PersistentVolumeClaim and the warm-up Job that are planned."""
    service_label = {labels.SERVICE: meta.service}
    if model.storage is not None:
        spec: Manifest = {
            "accessModes": [mode.value for mode in model.storage.access_modes],
            "resources": {"requests": {"storage": model.storage.size}},
        }
        if model.storage.storage_class_name is not None:
            spec["storageClassName"] = model.storage.storage_class_name
        object_meta = build_metadata(meta, model.claim, service_label)
        yield build_object("v1", "PersistentVolumeClaim", object_meta, spec=spec)
    if model.warm_up is not None:
        digest = content_digest(model.warm_up, DIGEST_LENGTH)
        name = object_names.model_warm_up(meta.service, digest)
        object_meta = build_metadata(meta, name, service_label)
        yield build_object("batch/v1", "Job", object_meta, spec=model.warm_up)


def _build_job_spec(
    service: str, args: InferenceServiceArgs, model: ModelArgs, cache: CacheArgs
) -> Manifest:
    script = _SCRIPT_IN_PLACE if cache.mount_model else _SCRIPT
    script = script.replace("{fetch}", shlex.join(model.fetcher.command))
    job = cache.job
    files, _ = plan_model_files(service, model)
    container = build_fetch_container(
        model,
        "fetch",
        ["/bin/sh", "-c", script, "sh"],
        files.warm_up_downloads,
        [{"name": _CACHE_VOLUME, "mountPath": cache.mount_path}],
    )
    claim = {"claimName": get_cache_claim_name(service, cache)}
    pod: Manifest = {
        "restartPolicy": "Never",  # keeps the logs of failed attempts
        "automountServiceAccountToken": False,
        # Lets the fetch container's user write to the volume.
        "securityContext": {"fsGroup": FETCHER_USER, "fsGroupChangePolicy": "OnRootMismatch"},
        "containers": [container],
        "volumes": [{"name": _CACHE_VOLUME, "persistentVolumeClaim": claim}],
    }
    optional = {
        "nodeSelector": job.node_selector,
        "tolerations": job.tolerations,
        "serviceAccountName": job.service_account_name,
        "imagePullSecrets": [{"name": name} for name in model.image_pull_secrets],
    }
    pod |= {key: value for key, value in optional.items() if value}
    spec: Manifest = {
        "backoffLimit": job.backoff_limit,
        "activeDeadlineSeconds": math.ceil(durations.parse_duration(job.timeout) or 0),
        # This pod lacks the service's label, by which users select serving pods.
        "template": {
            "metadata": {
                "labels": {**args.pod_labels, labels.APP: "model-warm-up"},
                **({"annotations": args.pod_annotations} if args.pod_annotations else {}),
            },
            "spec": pod,
        },
    }
    if job.ttl_seconds_after_finished is not None:
        spec["ttlSecondsAfterFinished"] = job.ttl_seconds_after_finished
    return spec
