"""The claim that keeps a service's model files (v1), and the Job that fills it (batch/v1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.api.model import FETCHER_USER
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.kube.outputs import with_placeholders
from fusioninfer_pulumi.pods.model import DIGEST_LENGTH, WarmUpPlan
from fusioninfer_pulumi.service_plan import ServicePlan

Manifest = dict[str, Any]


def model_cache(plan: ServicePlan) -> Iterator[Manifest]:
    """Builds the claim and the Job, those that a service needs."""
    model = plan.model
    if model is None:
        return
    own = {labels.SERVICE: plan.service}
    if model.claim is not None and model.storage is not None:
        spec: Manifest = {
            "accessModes": [mode.value for mode in model.storage.access_modes],
            "resources": {"requests": {"storage": model.storage.size}},
        }
        if model.storage.storage_class_name is not None:
            spec["storageClassName"] = model.storage.storage_class_name
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata(plan, model.claim, own),
            "spec": spec,
        }
    if model.warm_up is not None:
        spec = _job_spec(model.warm_up)
        text = json.dumps(with_placeholders(spec), sort_keys=True, ensure_ascii=False)
        digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
        yield {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata(plan, names.model_warm_up(plan.service, digest), own),
            "spec": spec,
        }


def _job_spec(warm_up: WarmUpPlan) -> Manifest:
    job = warm_up.cache.job
    pod: Manifest = {
        "restartPolicy": "Never",  # so that the log of a failed attempt stays
        "automountServiceAccountToken": False,
        # The volume's files belong to a group that the fetching user is in.
        "securityContext": {"fsGroup": FETCHER_USER, "fsGroupChangePolicy": "OnRootMismatch"},
        "containers": [dict(warm_up.container)],
        "volumes": [
            {"name": warm_up.volume, "persistentVolumeClaim": {"claimName": warm_up.claim}}
        ],
    }
    if job.node_selector:
        pod["nodeSelector"] = dict(job.node_selector)
    if job.tolerations:
        pod["tolerations"] = [dict(each) for each in job.tolerations]
    if job.service_account_name is not None:
        pod["serviceAccountName"] = job.service_account_name
    if warm_up.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in warm_up.pull_secrets]
    spec: Manifest = {
        "backoffLimit": job.backoff_limit,
        "activeDeadlineSeconds": warm_up.seconds,
        # Not the service's own label, by which people select what serves.
        "template": {
            "metadata": {"labels": {labels.APP: "model-warm-up"}},
            "spec": pod,
        },
    }
    if job.ttl_seconds_after_finished is not None:
        spec["ttlSecondsAfterFinished"] = job.ttl_seconds_after_finished
    return spec
