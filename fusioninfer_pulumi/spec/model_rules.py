"""Rules that relate the fields of a service's model to each other."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi import durations
from fusioninfer_pulumi.findings import Location, shown
from fusioninfer_pulumi.spec.container import resource_problems
from fusioninfer_pulumi.spec.model import AccessMode, CacheArgs, Fetch, ModelArgs, S3Args
from fusioninfer_pulumi.spec.model_uri import FORMS, ModelSource, read_source
from fusioninfer_pulumi.spec.plain import plain_problems
from fusioninfer_pulumi.spec.problem import Problem

#: Fields of a cache that are about what a warm-up wrote, by their names in YAML.
_WARMED = {"job": "job", "mount_model": "mountModel", "read_only": "readOnly"}


def model_problems(at: Location, model: ModelArgs) -> Iterator[Problem]:
    """Checks a model whose fields are well-formed by themselves.

    Args:
        at: Where it stands.
        model: The model.

    Yields:
        Every problem.
    """
    source = read_source(model.uri)
    if source is None:
        yield Problem((*at, "uri"), f"must be {FORMS}, got {shown(model.uri)}")
    else:
        yield from _foreign(at, model, source)
    yield from _lora(at, model)
    yield from _fetcher((*at, "fetcher"), model)
    if model.cache is not None:
        yield from _cache((*at, "cache"), model, model.cache, source)


def _foreign(at: Location, model: ModelArgs, source: ModelSource) -> Iterator[Problem]:
    others = [read_source(each.uri) for each in (model.lora.adapters if model.lora else ())]
    schemes = {source.scheme, *(each.scheme for each in others if each is not None)}
    if model.path is not None and source.scheme != "oci":
        yield Problem((*at, "path"), f"belongs to oci:// (this model is {source.scheme}://)")
    if model.fetch is not None and source.scheme != "hf":
        yield Problem((*at, "fetch"), f"belongs to hf:// (this model is {source.scheme}://)")
    if model.token_secret is not None and "hf" not in schemes:
        yield Problem((*at, "tokenSecret"), "has no effect: nothing comes from hf://; remove it")
    if model.s3 != S3Args() and "s3" not in schemes:
        yield Problem((*at, "s3"), "has no effect: nothing comes from s3://; remove it")


def _lora(at: Location, model: ModelArgs) -> Iterator[Problem]:
    taken = {model.name: "the model"} if model.name is not None else {}
    for index, adapter in enumerate(model.lora.adapters if model.lora else ()):
        here = (*at, "lora", "adapters", index)
        if adapter.name in taken:
            yield Problem(
                (*here, "name"), f'"{adapter.name}" is also the name of {taken[adapter.name]}'
            )
        elif "=" in adapter.name or "/" in adapter.name or adapter.name in (".", ".."):
            # It stands before `=` in an argument, and names a folder.
            yield Problem((*here, "name"), f"must hold neither = nor /, got {shown(adapter.name)}")
        taken.setdefault(adapter.name, f"adapters[{index}]")
        if read_source(adapter.uri) is None:
            yield Problem((*here, "uri"), f"must be {FORMS}, got {shown(adapter.uri)}")


def _fetcher(at: Location, model: ModelArgs) -> Iterator[Problem]:
    fetcher = model.fetcher
    if isinstance(fetcher.image, str) and (not fetcher.image or " " in fetcher.image):
        yield Problem((*at, "image"), f"must be an image reference, got {shown(fetcher.image)}")
    if fetcher.resources is not None:
        yield from resource_problems((*at, "resources"), fetcher.resources)
    for index, variable in enumerate(fetcher.env):
        if not isinstance(variable.get("name"), str):
            yield Problem((*at, "env", index), "must be a mapping with a name")
        yield from plain_problems((*at, "env", index), variable)


def _cache(
    at: Location, model: ModelArgs, cache: CacheArgs, source: ModelSource | None
) -> Iterator[Problem]:
    if (cache.claim_name is None) == (cache.storage is None):
        yield Problem(at, "needs either claimName (an existing claim) or storage (one of ours)")
    if source is not None and source.scheme in ("pvc", "oci"):
        yield Problem(at, f"has nothing to keep: {source.scheme}:// is mounted as it is; remove it")
    elif not cache.warm_up:
        if source is not None and (source.scheme == "s3" or model.fetch is Fetch.INIT_CONTAINER):
            yield Problem(
                (*at, "warmUp"),
                "must be true: init containers of several pods would write the same files at once",
            )
        for field, key in _WARMED.items():
            if field in cache.model_fields_set:
                yield Problem((*at, key), "has no effect without warmUp; remove it")
    elif model.fetch is not None:
        yield Problem(
            (*at[:-1], "fetch"), "has no effect: the warm-up fetches the model; remove it"
        )
    if durations.seconds(cache.job.timeout) is None:
        yield Problem(
            (*at, "job", "timeout"),
            f"must be a duration such as 30m or 2h, got {shown(cache.job.timeout)}",
        )
    modes = set(cache.storage.access_modes) if cache.storage is not None else set()
    if modes == {AccessMode.READ_ONLY_MANY}:
        yield Problem(
            (*at, "storage", "accessModes"), "must hold a mode that somebody can write with"
        )
    inside = (cache.mount_path + "/").startswith(model.mount_path + "/")
    if inside or (model.mount_path + "/").startswith(cache.mount_path + "/"):
        yield Problem((*at, "mountPath"), f"must not overlap model.mountPath {model.mount_path}")
