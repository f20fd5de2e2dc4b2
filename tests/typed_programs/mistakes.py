"""Typical mistakes; mypy and pyright report exactly the lines with `mistake`."""

from fusioninfer_pulumi import (
    ComponentType,
    InferenceService,
    InferenceServiceArgs,
    InferenceServiceArgsDict,
    RoleArgs,
    StorageArgs,
    model_service,
)

template = {"spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.11.0"}]}}
role = RoleArgs(name="a", component_type="worker", template=template)

InferenceServiceArgs(roles=[role], layot="PerRole")  # mistake: misspelled field
InferenceServiceArgs(roles=[role], layout="PerPod")  # mistake: no such layout
InferenceServiceArgs()  # mistake: roles are required
InferenceServiceArgs(roles=role)  # mistake: a list is needed
RoleArgs(name="a", component_type=ComponentType.WORKER, replicas="2")  # mistake: a number is needed
RoleArgs(name="a", component_type="work")  # mistake: no such type
RoleArgs(name="a", component_type="worker", multinode=2)  # mistake: a mapping is needed
RoleArgs(name="a", component_type="worker", multinode={"nodes": 2})  # mistake: node_count
StorageArgs(size=None)  # mistake: a size is needed
args: InferenceServiceArgsDict = {"roles": [role], "layot": "PerRole"}  # mistake: misspelled key
InferenceService("q", {"rolez": []})  # mistake: misspelled key, and roles are required
InferenceService("q", {"roles": [{"name": "a", "component_type": "work"}]})  # mistake: no such type
replicas = role.replica  # mistake: misspelled attribute
model_service("Qwen/Qwen3-8B")  # mistake: an accelerator is needed
model_service("Qwen/Qwen3-8B", accelerator="H100", replica=2)  # mistake: misspelled field
model_service("a/b", accelerator="H100", router={"gatway": {}})  # mistake: misspelled field
RoleArgs(name="a", component_type="worker", engine={"name": "tgi"})  # mistake: no such engine
