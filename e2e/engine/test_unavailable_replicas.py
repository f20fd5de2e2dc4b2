"""Updates of a service that already has an unavailable replica."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.project import PROGRAM
from e2e.engine.services import Stack, role
from e2e.harness.pods import is_condition_true


def make_unavailable(stack: Stack, pod: str) -> None:
    conditions = [{"type": item, "status": "False"} for item in ("Ready", "ContainersReady")]
    status = {"status": {"conditions": conditions}}
    stack.cluster.patch("v1/Pod", pod, status, stack.namespace, subresource="status")

    def is_seen() -> bool:
        name = pod.rpartition("-")[0]
        return not is_condition_true(stack.lws()[name], "Available")

    stack.cluster.wait(is_seen, 30, f"{pod} to count as down")


#: The program with an explicit provider whose kubeconfig is a secret.
EXPLICIT_PROVIDER_PROGRAM = PROGRAM.replace(
    "options = None\n",
    """import pulumi_kubernetes
config = pulumi.Output.secret(Path("cluster.yaml").read_text())
provider = pulumi_kubernetes.Provider("east", kubeconfig=config)
options = pulumi.ResourceOptions(provider=provider)
""",
)


@pytest.mark.core
@pytest.mark.parametrize("provider", ["default", "explicit"])
@pytest.mark.verifies("Unavailable replicas update first; others wait until they are back")
def test_unavailable_replicas_update_first(stack: Stack, provider: str) -> None:
    stack.cluster.add_nodes(2)
    if provider == "explicit":
        config = stack.cluster.kubeconfig.read_text(encoding="utf-8")
        (stack.folder / "cluster.yaml").write_text(config, encoding="utf-8")
        stack.program = EXPLICIT_PROVIDER_PROGRAM
        del stack.environment["KUBECONFIG"]
    stack.deploy(role(replicas=4))
    make_unavailable(stack, "svc-serve-1-0")
    assert stack.count_ready() == {"serve": 3}
    # Nothing changes, so the update does not read the cluster.
    stack.up().assert_succeeded()
    min_ready = stack.roll(role(replicas=4, tag="2", behavior="slow"))
    assert min_ready["serve"] == 3, min_ready
    assert stack.count_ready() == {"serve": 4}
    assert set(stack.lws_tags().values()) == {"2"}
    assert stack.preview() == {}


@pytest.mark.verifies(
    "A replica that stays unavailable counts against maxUnavailable until rollout.timeout"
)
def test_unavailable_replica_counts_against_limit(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    held: dict[str, Any] = {"timeout": "12s", "partition": 1}
    stack.deploy(role(replicas=4), rollout=held)
    make_unavailable(stack, "svc-serve-0-0")
    before = stack.pods()
    changed = role(replicas=4, tag="2", behavior="slow")
    result = stack.fail(changed, rollout=held)
    assert "no replica of role serve was allowed to change, because" in result.text
    assert "svc-serve-0 is not available and rollout.maxUnavailable allows" in result.text
    assert "pod svc-serve-0-0: phase Running, not ready" in result.text
    assert "Traceback" not in result.text
    assert stack.pods() == before
    assert set(stack.lws_tags().values()) == {"1"}
    held |= {"maxUnavailable": 2, "timeout": "150s"}
    min_ready = stack.roll(changed, rollout=held)
    assert min_ready["serve"] == 2, min_ready
    assert list(stack.lws_tags().values()) == ["1", "2", "2", "2"]
    assert stack.preview() == {}


@pytest.mark.verifies("After a halted update, the same program continues once the replica is back")
def test_halted_update_continues(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy(role())
    late = role(tag="2", behavior="slow", delay="15s")
    stack.fail(late, rollout={"timeout": "4s"})
    assert sorted(stack.lws_tags().values()) == ["1", "1", "2"]
    min_ready = stack.roll(late)
    assert min_ready["serve"] == 2, min_ready
    assert set(stack.lws_tags().values()) == {"2"}
    assert stack.preview() == {}
