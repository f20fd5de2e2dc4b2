"""A model's cache under Pulumi: the Job is awaited, and the sets wait for it."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi import InferenceService
from tests.samples import container, role, service, template

JOB = {"timeout": "30m"}


def spec(**cache: Any) -> dict[str, Any]:
    pod = template(container(args=None))
    model = {"uri": "hf://Qwen/Qwen3-8B", "cache": {**cache, "job": JOB, "warmUp": True}}
    made: dict[str, Any] = service(role(template=pod), model=model)["spec"]
    return made


def test_the_sets_wait_for_the_job_and_the_job_for_the_claim(engine: Any) -> None:
    made = engine.run(lambda: InferenceService("app", spec(storage={"size": "1Gi"})))
    by_type = {each.request.type.rpartition(":")[2]: each for each in made.children}
    claim, job, sets = (by_type[kind] for kind in
                        ("PersistentVolumeClaim", "Job", "LeaderWorkerSet"))  # fmt: skip
    assert claim.urn in job.request.dependencies
    assert {claim.urn, job.urn} <= set(sets.request.dependencies)
    assert job.request.customTimeouts.create == "1800s"
    # The claim may be bound by its first pod; the Job is awaited by the provider.
    annotations = claim.inputs["metadata"]["annotations"]
    assert annotations == {"pulumi.com/skipAwait": "true"}
    assert "annotations" not in job.inputs["metadata"]
    assert job.request.type == "kubernetes:batch/v1:Job"
    assert claim.request.type == "kubernetes:core/v1:PersistentVolumeClaim"
    assert job.request.name.startswith("app-model-")


def test_an_existing_claim_is_not_registered(engine: Any) -> None:
    made = engine.run(lambda: InferenceService("app", spec(claimName="shared")))
    kinds = [each.request.type.rpartition(":")[2] for each in made.children]
    assert sorted(kinds) == ["Job", "LeaderWorkerSet", "Service"]
