"""`plan --output mermaid`: the topology as a chart for markdown."""

from __future__ import annotations

import re
from pathlib import Path

from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.cli.plan_output import PlanView, draw_mermaid
from fusioninfer_pulumi.loading.load import load

PAIR = Path(__file__).parent.parent / "fixtures/inputs/router-example-3-pd.yaml"
GANG = "PodGroup chat, all-or-nothing: 4 of 4 pods, 32 GPUs (scheduler volcano)"


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
    plan = plan_service(InferenceServiceArgs.model_validate({"name": "chat", "roles": [role]}))
    return draw_mermaid([PlanView(plan)])


def test_service_is_drawn_from_its_clients_to_its_replicas() -> None:
    assert service(replicas=2, nodes=2).splitlines() == [
        "flowchart LR",
        '  subgraph service["chat in default: 4 pods, 32 GPUs"]',
        "  direction LR",
        '  entry["Service chat"]',
        f'  subgraph gang["Gang: {GANG}"]',
        "  direction LR",
        '  subgraph role0["serve (worker): 2 replicas"]',
        "  direction TB",
        '  role0_0["serve-0<br/>2 nodes x 8 GPUs"]',
        '  role0_1["serve-1<br/>2 nodes x 8 GPUs"]',
        "  end",
        "  end",
        "  entry --> role0",
        "  end",
        '  client(["clients"]) --> entry',
    ]


def test_chart_shows_prefill_and_kv_transfer() -> None:
    drawn = draw_mermaid([PlanView(plan_service(load(PAIR)[0]))]).splitlines()
    assert '  subgraph role0["prefill-servers (prefiller): 2 replicas"]' in drawn
    assert [line.strip() for line in drawn if "role" in line and ">" in line.split('"')[0]] == [
        "entry --> role1",
        "role1 -. prompt .-> role0",
        "role0 == KV cache ==> role1",
    ]


def test_many_replicas_are_one_box() -> None:
    many = '  role0_all["serve-0 … serve-99<br/>each 8 GPUs"]'
    assert many in service(replicas=100)
    assert '  subgraph role0["serve (worker): scaled to zero"]' in service(replicas=0)
    assert "entry --> role0" not in service(replicas=0)


def test_single_counts_are_singular() -> None:
    drawn = service(replicas=1)
    assert '"serve (worker): 1 replica"' in drawn
    assert '"chat in default: 1 pod, 8 GPUs"' in drawn


def test_multiple_services_are_one_chart() -> None:
    template = {"spec": {"containers": [{"name": "e", "image": "i", "command": ["x"]}]}}
    roles = [{"name": "serve", "componentType": "worker", "template": template}]
    plans = [
        plan_service(InferenceServiceArgs.model_validate({"name": name, "roles": roles}))
        for name in ("chat", "embed")
    ]
    drawn = draw_mermaid([PlanView(plan) for plan in plans])
    assert drawn.count("flowchart LR") == 1
    for number, plan in enumerate(plans):
        alone = draw_mermaid([PlanView(plan)]).splitlines()[1:]
        marked = [
            re.sub(r"\b(entry|service|role0|role0_0)(?=[\[ ]|$)", rf"s{number}_\1", line)
            for line in alone
        ]
        assert "\n".join(marked) in drawn
