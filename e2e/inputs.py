"""Services for the tests: inputs of the FusionInfer documents, examples and generic roles."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.harness import Object
from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from tests.page_blocks import blocks

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = {
    path.stem: path for path in sorted((ROOT / "tests" / "fixtures" / "inputs").glob("*.yaml"))
}
"""All complete inputs of the two FusionInfer documents."""
EXAMPLES = ("qwen-monolithic", "deepseek-disagg")


def build_plan(source: Path | Mapping[str, Any]) -> ServicePlan:
    (plan,) = plan_services(load(source))
    return plan


def render_objects(plan: ServicePlan) -> list[Object]:
    """Return the objects in apply order; raise InvalidServiceError if the plan has errors."""
    return list(render(plan))


def read_page_objects(file: str) -> list[Object]:
    """Return the objects of a file on the how-to pages on security."""
    (text,) = [
        block.text
        for page in ("security", "tls", "gateway-policies")
        for block in blocks(ROOT / "docs" / "how-to" / f"{page}.md")
        if block.title == file
    ]
    return list(yaml.safe_load_all(text))


def dump_yaml(*documents: Object) -> str:
    return str(yaml.safe_dump_all(documents))


def with_namespace(objects: list[Object], namespace: str) -> list[Object]:
    return [
        {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
        for manifest in objects
    ]


def run_command(
    *words: str | Path, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fusioninfer_pulumi.cli.main", *map(str, words)],
        env=os.environ | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )


@functools.cache
def render_example(name: str) -> list[Object]:
    """Return the objects that `render` prints for a program of `examples/`."""
    done = run_command("render", "--output", "json", ROOT / "examples" / name)
    assert done.returncode == 0, done.stderr
    items: list[Object] = json.loads(done.stdout)["items"]
    return items


def service(
    name: str,
    *roles: Object,
    minimum: Mapping[str, int] | None = None,
    required: str = "Any",
    **scheduling: Any,
) -> Object:
    """Return a service; with `minimum`, its gang is partial."""
    chosen = {} if required == "Any" else {"requiredReplicas": required}
    gang: Object = {"minRoleReplicas": dict(minimum), **chosen} if minimum is not None else {}
    policy = {"gangPolicy": gang} if minimum is not None else {}
    strategy = {**policy, **scheduling}
    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"roles": list(roles), **({"schedulingStrategy": strategy} if strategy else {})},
    }


def role(
    name: str, component_type: str, replicas: int = 1, nodes: int = 1, gpus: int = 8, **more: Any
) -> Object:
    """Return a role with `gpus` accelerators per pod and a custom command."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {"requests": {"cpu": "1"}}
    container = {
        "name": "engine",
        "image": "registry.example.com/engine:1",
        "command": ["/app/serve"],
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": resources,
    }
    multinode = {"multinode": {"nodeCount": nodes, "launcher": "none"}} if nodes > 1 else {}
    return {
        "name": name,
        "componentType": component_type,
        "replicas": replicas,
        **multinode,
        "template": {"spec": {"containers": [container]}},
        **more,
    }


def prefill_decode(
    name: str = "svc",
    *,
    prefill: int = 1,
    decode: int = 2,
    minimum: Mapping[str, int] | None = None,
    required: str = "Any",
) -> Object:
    """Return story 4 without vLLM: prefill on 2 nodes, decode on 4, 8 accelerators per pod."""
    return service(
        name,
        role("prefill", "prefiller", prefill, 2),
        role("decode", "decoder", decode, 4),
        minimum=minimum,
        required=required,
    )
