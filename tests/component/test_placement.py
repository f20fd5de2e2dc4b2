"""The program of docs/placement.md with mocks, and placed services with Outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pulumi
import pytest

from capacity.tests.placing import LABEL, inventory, pool, worker
from fusioninfer_pulumi import InferenceService, place

DOCS = Path(__file__).parent.parent.parent / "docs" / "placement.md"
BLOCKS = re.findall(
    r"```(yaml|python|console)(?: title=[^\n]*)?\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL
)
YAML = [text for kind, text in BLOCKS if kind == "yaml"]
PROGRAM = """
from fusioninfer_pulumi import InferenceService, load, place

for service in place(load("services.yaml"), "pools.yaml").services:
    InferenceService(str(service.name), service)
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in zip(("pools.yaml", "services.yaml"), YAML[:2], strict=True):
        Path(name).write_text(text)


def selectors(deployment: Any) -> dict[str, str]:
    """Return the node pool of each LeaderWorkerSet's pods."""
    result = {}
    for child in deployment.children:
        if child.request.type.endswith(":LeaderWorkerSet"):
            pod = pod_spec(child.inputs["spec"])
            result[child.inputs["metadata"]["name"]] = pod["nodeSelector"][LABEL]
    return result


def pod_spec(spec: Any) -> Any:
    """Return a LeaderWorkerSet's pod spec, which is secret if it contains a secret."""
    plain = spec[1] if isinstance(spec, tuple) else spec
    return plain["leaderWorkerTemplate"]["workerTemplate"]["spec"]


def test_program_places_documented_services(engine: Any) -> None:
    deployment = engine.run(lambda: exec(PROGRAM, {}))
    assert selectors(deployment) == {
        **{f"chat-prefill-{index}": "h100" for index in range(2)},
        **{f"chat-decode-{index}": "l40s" for index in range(3)},
        "reason-serve-0": "h100",
    }


def test_placed_services_keep_outputs(engine: Any) -> None:
    def program() -> None:
        service = worker("w")
        (container,) = service["spec"]["roles"][0]["template"]["spec"]["containers"]
        container["env"] = [{"name": "TOKEN", "value": pulumi.Output.secret("hush")}]
        container["image"] = pulumi.Output.from_input("registry.example.com/vllm:1")
        container["command"] = ["/app/serve"]
        (placed,) = place([service], inventory(pool("a", 1))).services
        InferenceService("w", placed)

    deployment = engine.run(program)
    assert selectors(deployment) == {"w-serve-0": "a"}
    spec = deployment["w-serve-0"].inputs["spec"]
    (container,) = pod_spec(spec)["containers"]
    assert container["image"] == "registry.example.com/vllm:1"
    assert (spec[0], container["env"]) == ("secret", [{"name": "TOKEN", "value": "hush"}])
