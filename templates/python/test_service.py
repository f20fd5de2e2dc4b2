"""What would be deployed, without Pulumi and without a cluster: run `pytest`."""

from service import service_args

from fusioninfer_pulumi import plan_service


def test_the_service_has_the_gpus_that_it_is_given() -> None:
    plan = plan_service(service_args("Qwen/Qwen3-8B", gpus=2, replicas=3), "llm")
    assert plan.total_pods == 3
    assert plan.total_accelerators == 6
    assert not [each for each in plan.findings if each.severity == "error"]
