"""Test the planned objects with `pytest`, without Pulumi and without a cluster."""

from service import service_args

from fusioninfer_pulumi import plan_service


def test_the_service_can_run() -> None:
    args = service_args("Qwen/Qwen3-8B", accelerator="H100", replicas=3)
    plan = plan_service(args, "llm")
    assert [finding.message for finding in plan.findings if finding.severity == "error"] == []
    assert sum(len(role.replicas) for role in plan.roles) == 3
