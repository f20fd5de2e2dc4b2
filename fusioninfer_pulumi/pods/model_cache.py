"""Plans and builds the claim for a service's model files, and the Job that downloads them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.model import FETCHER_USER, ModelArgs, StorageArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.kube import durations, labels, object_names
from fusioninfer_pulumi.kube.object_metadata import Manifest, ServiceMeta, build_object, metadata
from fusioninfer_pulumi.kube.pulumi_outputs import content_digest
from fusioninfer_pulumi.pods.model_files import cache_claim, fetch_container, plan_model_files
from fusioninfer_pulumi.pods.pod import ModelFiles

#: Characters of the digest in the warm-up's name.
DIGEST_LENGTH = 8

# A folder gets its final name only once its download is complete. So no pod finds an incomplete
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

# The kubelet creates a folder that a pod mounts, so no download can be renamed to it. The folder is
# filled in place, and a marker file next to it shows that it is complete.
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
    """The claim and the warm-up Job of a model, None if they are not generated.

    Attributes:
        warm_up: Spec of the Job.
    """

    claim: str | None = None
    storage: StorageArgs | None = None
    warm_up: Manifest | None = None


def plan_model_cache(service: str, args: InferenceServiceArgs) -> ModelPlan | None:
    """Plan the claim and the Job of a service's model; None if it has no known model."""
    model = args.model
    files = plan_model_files(service, model) if model is not None else None
    if model is None or files is None:
        return None
    cache = model.cache
    if cache is None:
        return ModelPlan()
    claim = cache_claim(service, cache)
    warm_up = _job_spec(args, model, claim, files) if cache.warm_up else None
    if cache.storage is None:
        return ModelPlan(warm_up=warm_up)
    return ModelPlan(claim, cache.storage, warm_up)


def model_cache(meta: ServiceMeta, model: ModelPlan | None) -> Iterator[Manifest]:
    """Build the claim and the Job, if they are planned."""
    if model is None:
        return
    own_labels = {labels.SERVICE: meta.service}
    if model.claim is not None and model.storage is not None:
        spec: Manifest = {
            "accessModes": [mode.value for mode in model.storage.access_modes],
            "resources": {"requests": {"storage": model.storage.size}},
        }
        if model.storage.storage_class_name is not None:
            spec["storageClassName"] = model.storage.storage_class_name
        named = metadata(meta, model.claim, own_labels)
        yield build_object("v1", "PersistentVolumeClaim", named, spec=spec)
    if model.warm_up is not None:
        digest = content_digest(model.warm_up, DIGEST_LENGTH)
        named = metadata(meta, object_names.model_warm_up(meta.service, digest), own_labels)
        yield build_object("batch/v1", "Job", named, spec=model.warm_up)


def _job_spec(
    args: InferenceServiceArgs, model: ModelArgs, claim: Any, files: ModelFiles
) -> Manifest:
    cache = model.cache
    assert cache is not None, "only a cache is warmed"
    script = _SCRIPT_IN_PLACE if cache.mount_model else _SCRIPT
    script = script.replace("{fetch}", shlex.join(model.fetcher.command))
    volume, job = "model-cache", cache.job
    container = fetch_container(
        model,
        "fetch",
        ["/bin/sh", "-c", script, "sh"],
        files.warmed,
        [{"name": volume, "mountPath": cache.mount_path}],
    )
    pod: Manifest = {
        "restartPolicy": "Never",  # keeps the logs of failed attempts
        "automountServiceAccountToken": False,
        # Lets the download's user write to the volume.
        "securityContext": {"fsGroup": FETCHER_USER, "fsGroupChangePolicy": "OnRootMismatch"},
        "containers": [container],
        "volumes": [{"name": volume, "persistentVolumeClaim": {"claimName": claim}}],
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
        "activeDeadlineSeconds": math.ceil(durations.seconds(job.timeout) or 1),
        # This pod lacks the service's label, because users select serving pods by that.
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
