"""Plans what a model needs beside the pods: a cache's claim, and the Job that fills it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi import durations, names
from fusioninfer_pulumi.findings import Finding, error, info, warning
from fusioninfer_pulumi.names import DNS_LABEL_LIMIT
from fusioninfer_pulumi.plan.completion.fetch import fetch_container
from fusioninfer_pulumi.plan.completion.model_files import ModelFiles, cache_claim
from fusioninfer_pulumi.plan.topology import serving
from fusioninfer_pulumi.spec.model import AccessMode, CacheArgs, ModelArgs, StorageArgs
from fusioninfer_pulumi.spec.role import RoleArgs

#: Characters of the digest in the warm-up's name.
DIGEST_LENGTH = 8

# Each source is fetched into a folder of its own, which gets its name only once it is complete:
# no pod finds half a model, and a second attempt starts anew.
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

# A folder that pods mount by itself may be there before anything is in it: the kubelet makes it for
# a pod that comes first. It is filled in place, and a mark beside it says that it is complete.
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


@dataclass(frozen=True)
class WarmUpPlan:
    """The Job that fills a cache before pods are made.

    Attributes:
        container: Its container.
        claim: The claim that it fills.
        volume: Name of the volume.
        seconds: How long it may take.
        cache: What else is known of its pod.
        pull_secrets: Names of the Secrets for its image.
    """

    container: Mapping[str, Any]
    claim: str
    volume: str
    seconds: int
    cache: CacheArgs
    pull_secrets: tuple[str, ...]


@dataclass(frozen=True)
class ModelPlan:
    """What a model needs beside the pods.

    Attributes:
        claim: Name of the claim that is made, None for none.
        storage: What it is to be, None for none.
        warm_up: The Job, None for none.
    """

    claim: str | None = None
    storage: StorageArgs | None = None
    warm_up: WarmUpPlan | None = None


def model_plan(
    service: str,
    model: ModelArgs,
    files: ModelFiles,
    roles: Sequence[RoleArgs],
    groups: int | None = None,
) -> tuple[ModelPlan, list[Finding]]:
    """Plans the claim and the Job of a model.

    Args:
        service: Name of the service.
        model: The model.
        files: Where its files lie.
        roles: The service's roles.
        groups: Copies of them, None for one.

    Returns:
        The plan, and what is to be said.
    """
    findings = list(
        _findings(service, model, files, serving(roles), 1 if groups is None else groups)
    )
    cache = model.cache
    if cache is None:
        return ModelPlan(), findings
    claim = cache_claim(service, cache)
    warm_up = _warm_up(model, cache, claim, files) if cache.warm_up else None
    if cache.storage is None:
        return ModelPlan(warm_up=warm_up), findings
    return ModelPlan(claim, cache.storage, warm_up), findings


def _warm_up(model: ModelArgs, cache: CacheArgs, claim: str, files: ModelFiles) -> WarmUpPlan:
    script = _SCRIPT_IN_PLACE if cache.mount_model else _SCRIPT
    script = script.replace("{fetch}", shlex.join(model.fetcher.command))
    volume = "model-cache"
    container = fetch_container(
        model,
        "fetch",
        ["/bin/sh", "-c", script, "sh"],
        files.warmed,
        [{"name": volume, "mountPath": cache.mount_path}],
    )
    return WarmUpPlan(
        container=container,
        claim=claim,
        volume=volume,
        seconds=math.ceil(durations.seconds(cache.job.timeout) or 1),
        cache=cache,
        pull_secrets=tuple(model.image_pull_secrets),
    )


def _findings(
    service: str, model: ModelArgs, files: ModelFiles, roles: Sequence[RoleArgs], groups: int
) -> Iterator[Finding]:
    if files.images:
        yield info(
            "model.uri",
            "oci:// is mounted as an image volume: Kubernetes has them from 1.33 on behind the "
            "feature gate ImageVolume, and by default from 1.35 on",
        )
    pods = groups * sum(role.replicas * role.nodes for role in roles)
    if files.fetched and pods > 1:
        yield info("model", f"each of {pods} pods fetches the files for itself; a cache keeps them")
    cache = model.cache
    if cache is None:
        return
    job = names.model_warm_up(service, "0" * DIGEST_LENGTH)
    if cache.warm_up and len(job) > DNS_LABEL_LIMIT:
        yield error(
            "model.cache.warmUp",
            f"the Job's name would have {len(job)} characters, at most {DNS_LABEL_LIMIT} are "
            f"allowed; shorten the name of service {service} by {len(job) - DNS_LABEL_LIMIT}",
        )
    if cache.storage is not None:
        yield from _access(cache.storage.access_modes, roles, pods)


def _access(modes: Sequence[AccessMode], roles: Sequence[RoleArgs], pods: int) -> Iterator[Finding]:
    at = "model.cache.storage.accessModes"
    given = set(modes)
    if AccessMode.READ_WRITE_MANY in given or pods < 2:
        return
    if AccessMode.READ_WRITE_ONCE_POD in given:
        yield error(at, f"ReadWriteOncePod lets one pod in, the service has {pods}")
    elif AccessMode.READ_ONLY_MANY in given:
        return
    elif any(role.nodes > 1 for role in roles):
        yield error(
            at, "ReadWriteOnce is for one node, and replicas span several; use ReadWriteMany"
        )
    else:
        yield warning(
            at,
            f"ReadWriteOnce is for one node: all {pods} pods have to fit it; use ReadWriteMany",
        )
