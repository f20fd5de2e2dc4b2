"""Where the files of a model and its adapters come to lie in a pod, and who brings them there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi import names
from fusioninfer_pulumi.spec.model import CacheArgs, Fetch, ModelArgs
from fusioninfer_pulumi.spec.model_uri import ModelSource, read_source

Manifest = dict[str, Any]

#: Where huggingface_hub keeps what it downloads, and what it shows to the hub.
HF_HOME_ENV, HF_TOKEN_ENV = "HF_HOME", "HF_TOKEN"  # names of variables

_VOLUME, _CACHE, _ADAPTERS = "model", "model-cache", "model-adapters"


@dataclass
class ModelFiles:
    """What a pod gets for its model.

    Attributes:
        model: What the engine is told: a repository of Hugging Face, or a path.
        revision: Revision that the engine fetches.
        adapters: Repository or path of each adapter by its name.
        volumes: Volumes by name.
        mounts: What the serving container mounts.
        fetched: Source and folder of what init containers fetch, with what each mounts.
        warmed: Source and folder of what the warm-up fetches.
        env: Variables of the serving container.
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


def model_files(service: str, model: ModelArgs) -> ModelFiles | None:
    """Decides where everything lies.

    Args:
        service: Name of the service.
        model: The model, valid by the spec's rules.

    Returns:
        What each pod gets; None for a source that cannot be read, of a spec that was refused.
    """
    source = read_source(model.uri)
    if source is None:
        return None
    files = ModelFiles(model.mount_path)
    warm = model.cache is not None and model.cache.warm_up
    if model.cache is not None:
        _add_cache(files, service, model.cache)
    by_engine = source.scheme == "hf" and not warm and model.fetch is not Fetch.INIT_CONTAINER
    if by_engine:
        files.model, files.revision = source.place, source.revision
        if model.cache is not None:
            files.env.append({"name": HF_HOME_ENV, "value": model.cache.mount_path})
    elif source.scheme in ("pvc", "oci"):
        _mount(files, _VOLUME, source, model.mount_path)
        if model.path is not None:
            files.model = f"{model.mount_path}/{model.path}"
    elif warm and model.cache is not None:
        files.model = _warmed(files, source, model.cache, model.mount_path)
    else:
        files.volumes[_VOLUME] = {"emptyDir": {}}
        files.mounts.append({"name": _VOLUME, "mountPath": model.mount_path, "readOnly": True})
        writable = {"name": _VOLUME, "mountPath": model.mount_path}
        files.fetched.append((source.fetched, model.mount_path, writable))
    engine_fetches = by_engine
    for index, adapter in enumerate(model.lora.adapters if model.lora else ()):
        found = read_source(adapter.uri)
        if found is None:
            continue
        place = _adapter(files, model, found, adapter.name, index, by_engine=by_engine)
        files.adapters[adapter.name] = place
        engine_fetches = engine_fetches or not place.startswith("/")
    if engine_fetches and model.token_secret is not None:
        files.env.append(token_variable(model))
    return files


def token_variable(model: ModelArgs) -> Manifest:
    """The variable with the token for Hugging Face; `token_secret` must be stated."""
    secret = model.token_secret
    assert secret is not None, "asked only where there is one"
    reference = {"name": secret.name, "key": secret.key}
    return {"name": HF_TOKEN_ENV, "valueFrom": {"secretKeyRef": reference}}


def cache_claim(service: str, cache: CacheArgs) -> str:
    """Name of the claim of a cache: an existing one, or the service's own."""
    if cache.claim_name is not None or cache.storage is None:
        return cache.claim_name or ""
    modes = ",".join(sorted(mode.value for mode in cache.storage.access_modes))
    immutable = f"{cache.storage.storage_class_name or ''} {modes}"
    return names.model_cache(service, hashlib.sha256(immutable.encode()).hexdigest()[:6])


def _adapter(
    files: ModelFiles,
    model: ModelArgs,
    source: ModelSource,
    name: str,
    index: int,
    *,
    by_engine: bool,
) -> str:
    root = f"{model.mount_path}-adapters"
    path = f"{root}/{_slug(name)}"
    if source.scheme == "hf" and source.revision is None and by_engine:
        return source.place  # the engine fetches it like its model; it takes no revision
    if source.scheme in ("pvc", "oci"):
        _mount(files, f"model-adapter-{index}", source, path)
        return path
    if model.cache is not None and model.cache.warm_up:
        return _warmed(files, source, model.cache, path)
    files.volumes[_ADAPTERS] = {"emptyDir": {}}
    shared = {"name": _ADAPTERS, "mountPath": path, "subPath": _slug(name)}
    files.mounts.append({**shared, "readOnly": True})
    files.fetched.append((source.fetched, path, shared))
    return path


def _mount(files: ModelFiles, volume: str, source: ModelSource, path: str) -> None:
    mount: Manifest = {"name": volume, "mountPath": path, "readOnly": True}
    if source.scheme == "pvc":
        # The claim may be written elsewhere; nothing is through this mount.
        files.volumes[volume] = {"persistentVolumeClaim": {"claimName": source.place}}
        if source.path:
            mount["subPath"] = source.path
    else:
        files.images = True
        files.volumes[volume] = {"image": {"reference": source.place}}
    files.mounts.append(mount)


def _add_cache(files: ModelFiles, service: str, cache: CacheArgs) -> None:
    claim: Mapping[str, Any] = {"claimName": cache_claim(service, cache)}
    files.volumes[_CACHE] = {"persistentVolumeClaim": dict(claim)}
    if not cache.mount_model:
        files.mounts.append(_cache_mount(cache, cache.mount_path))


def _cache_mount(cache: CacheArgs, path: str) -> Manifest:
    read_only = {"readOnly": True} if cache.warm_up and cache.read_only else {}
    return {"name": _CACHE, "mountPath": path, **read_only}


def _warmed(files: ModelFiles, source: ModelSource, cache: CacheArgs, mounted: str) -> str:
    """Has the warm-up fetch a source; returns where pods find it, `mounted` if it is by itself."""
    # A folder for each source and revision: another one is fetched beside the one in use. One that
    # is mounted by itself is filled in another way (`plan/model.py`), so it is another folder, too.
    form = " mounted" if cache.mount_model else ""
    digest = hashlib.sha256(f"{source.fetched}{form}".encode()).hexdigest()[:8]
    name = f"{_slug(source.place)}-{digest}"
    folder = f"{cache.mount_path}/{name}"
    if (source.fetched, folder) not in files.warmed:
        files.warmed.append((source.fetched, folder))
    if not cache.mount_model:
        return folder
    files.mounts.append({**_cache_mount(cache, mounted), "subPath": name})
    return mounted


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "x"
