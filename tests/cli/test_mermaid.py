"""`plan --output mermaid`: the topology as a chart for markdown."""

from __future__ import annotations

from fusioninfer_pulumi.cli.mermaid import mermaid
from fusioninfer_pulumi.plan import plan_service
from fusioninfer_pulumi.spec import InferenceServiceArgs


def service(*, replicas: int, nodes: int = 1, name: str = "serve") -> str:
    template = {
        "spec": {
            "containers": [
                {
                    "name": "engine",
                    "image": "registry.example/engine:1",
                    "command": ["serve"],
                    "resources": {"limits": {"nvidia.com/gpu": 8}},
                }
            ]
        }
    }
    role = {
        "name": name,
        "componentType": "worker",
        "replicas": replicas,
        "template": template,
        "multinode": {"nodeCount": nodes, "launcher": "none"},
    }
    return mermaid(
        plan_service(InferenceServiceArgs.model_validate({"name": "chat", "roles": [role]}))
    )


def test_a_service_is_drawn_from_its_clients_to_its_replicas() -> None:
    assert service(replicas=2, nodes=2).splitlines() == [
        "flowchart LR",
        '  client(["clients"])',
        '  client --> entry["Service chat<br/>port 8000"]',
        '  subgraph service["chat in default: 4 pods, 32 GPUs"]',
        '  subgraph role0["serve (worker): 2 replicas"]',
        '  r0_0["chat-serve-0<br/>2 x 8 GPUs"]',
        '  r0_1["chat-serve-1<br/>2 x 8 GPUs"]',
        "  end",
        "  end",
        "  entry --> role0",
        '  gang{{"PodGroup chat<br/>4 pods, 32 GPUs start together"}} -.- service',
    ]


def test_many_replicas_are_one_box_and_none_is_said() -> None:
    assert '  r0_all["chat-serve-0 … chat-serve-99<br/>each 1 x 8 GPUs"]' in service(replicas=100)
    assert '  subgraph role0["serve (worker): parked"]' in service(replicas=0)
    assert "entry --> role0" not in service(replicas=0)
