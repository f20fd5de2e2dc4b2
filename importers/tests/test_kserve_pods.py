"""Pods get the fields of KServe's presets, and arguments as its shell script splits them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from rows import each_row
from samples import rendered

from importers.tests.kserve_samples import (
    LIVENESS,
    PRESET,
    ROUTER,
    Manifest,
    config,
    container,
    llm,
    pod,
    served,
    volumes,
)
from importers.tests.reads import check, convert, reject, to_spec

RANKS = {"data": 2, "dataLocal": 1}


def template(*documents: Manifest, block: str = "template") -> Manifest:
    """Return the first pod template of the only service."""
    spec: Manifest = to_spec(*documents)["roles"][0][block]["spec"]
    return spec


def add_volumes(*listed: Any, **main: Any) -> Manifest:
    return {**pod(**main), "volumes": list(listed)}


def test_user_shared_memory_takes_precedence() -> None:
    larger = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
    result = template(llm(template=add_volumes(larger)))
    assert result["volumes"] == volumes("16Gi")
    only_size = {"name": "dshm", "emptyDir": {"sizeLimit": "4Gi"}}
    below = config("base", template={"volumes": [larger]})
    above = llm(template=add_volumes(only_size), baseRefs=[{"name": "base"}])
    assert template(below, above)["volumes"] == volumes("4Gi")


@pytest.mark.parametrize(
    ("parallelism", "limit", "added"),
    [(RANKS, "8Gi", ["IPC_LOCK", "SYS_RAWIO", "NET_RAW"]), ({"pipeline": 2}, "8Gi", None)],
)
def test_multi_pod_replicas_have_more_shared_memory(
    parallelism: Manifest, limit: str, added: list[str] | None
) -> None:
    document = llm(template=pod(), worker=pod(), parallelism=parallelism)
    (role,) = to_spec(document)["roles"]
    for block in ("leaderTemplate", "workerTemplate"):
        assert role[block]["spec"]["volumes"] == volumes(limit)
        assert container(role, block)["securityContext"]["capabilities"].get("add") == added
    assert container(role, "leaderTemplate")["livenessProbe"] == LIVENESS
    assert "livenessProbe" not in container(role, "workerTemplate")


def test_user_mounts_take_precedence_over_the_preset() -> None:
    fields = [{"name": "mine", "mountPath": "/models/"}, {"name": "mine", "mountPath": "/data"}]
    claim = {"name": "mine", "persistentVolumeClaim": {"claimName": "c"}}
    env = [{"name": "HOME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    result = template(llm(template=add_volumes(claim, volumeMounts=fields, env=env)))
    (main,) = result["containers"]
    assert main["volumeMounts"] == [*PRESET["volumeMounts"][:3], *fields]
    assert main["env"] == [PRESET["env"][1], *env]
    assert result["volumes"] == [*volumes(), claim]


def test_user_volume_replaces_preset_volume() -> None:
    mounts = [{"name": "model-cache", "mountPath": "/cache"}]
    assert reject(llm(template=pod(volumeMounts=mounts))) == []
    claim = {"name": "model-cache", "persistentVolumeClaim": {"claimName": "c"}}
    document = llm(template=add_volumes(claim))
    assert template(document)["volumes"] == [*volumes()[:3], claim]
    finding = "f: info: template.volumes[0]: replaces the emptyDir of KServe's presets with "
    assert any(message.startswith(finding) for message in check(document))
    (finding,) = reject(llm(template=pod(volumeMounts=[{"name": "tls-certs", "mountPath": "/t"}])))
    assert finding.startswith(
        'f: template.containers[0].volumeMounts[0].name: the pod has no volume "tls-certs" (it has '
    )


def test_offloaded_cache_removes_shared_memory_limit() -> None:
    offloading = {"cpu": "10Gi"}
    document = llm(template=pod(image="vllm/vllm-openai:v0.22.0"), kvCacheOffloading=offloading)
    assert template(document)["volumes"] == volumes(None)


@each_row(
    ("main", "probes"),
    [
        ({"args": ["--port", "9000"]},
         {"livenessProbe": {**LIVENESS, "httpGet": {"path": "/health", "port": 9000}}}),
        ({"livenessProbe": {"failureThreshold": 3}},
         {"livenessProbe": {**LIVENESS, "failureThreshold": 3}}),
        ({"livenessProbe": {"exec": {"command": ["true"]}}},
         {"livenessProbe": {**{k: v for k, v in LIVENESS.items() if k != "httpGet"},
                            "exec": {"command": ["true"]}}}),
        ({"readinessProbe": {"periodSeconds": 30}},
         {"livenessProbe": LIVENESS,
          "readinessProbe": {"httpGet": LIVENESS["httpGet"], "periodSeconds": 30,
                             "timeoutSeconds": 1, "failureThreshold": 2}}),
        ({"startupProbe": {"failureThreshold": 360}},
         {"livenessProbe": LIVENESS,
          "startupProbe": {"httpGet": LIVENESS["httpGet"], "periodSeconds": 10,
                           "failureThreshold": 360}}),
        ({"command": ["vllm", "serve"]}, {"livenessProbe": LIVENESS}),
        ({"command": ["/app/simulator"], "args": ["--port", "9000"]},
         {"livenessProbe": {**LIVENESS, "httpGet": {"path": "/health", "port": 9000}},
          "readinessProbe": {"httpGet": {"path": "/health", "port": 9000}, "periodSeconds": 1,
                             "timeoutSeconds": 1, "failureThreshold": 2},
          "startupProbe": {"httpGet": {"path": "/health", "port": 9000}, "periodSeconds": 10,
                           "failureThreshold": 60}}),
    ],
)  # fmt: skip
def test_missing_probes_come_from_presets(main: Manifest, probes: Manifest) -> None:
    (result,) = template(llm(template=pod(**main)))["containers"]
    assert {key: value for key, value in result.items() if key.endswith("Probe")} == probes


def test_decode_probe_uses_engine_port_behind_sidecar() -> None:
    words = '--kv_transfer_config \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''
    env = [{"name": "VLLM_ADDITIONAL_ARGS", "value": words}]
    document = llm(
        template=pod(env=env), prefill={"template": pod(env=env)}, router={"scheduler": {}}
    )
    ports = {
        manifest["metadata"]["labels"]["fusioninfer.io/component-type"]: pods["containers"][0][
            "livenessProbe"
        ]["httpGet"]["port"]
        for manifest in rendered(*convert(document))
        if manifest["kind"] == "LeaderWorkerSet"
        for pods in [manifest["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]]
    }
    assert ports == {"prefiller": 8000, "decoder": 8001}


INITIALIZER: Manifest = {
    "name": "storage-initializer",
    "image": "i",
    "env": [{"name": "A", "value": "b"}],
    "resources": {"limits": {"memory": "64Gi"}},
}


def initialized(*listed: Manifest, **fields: Any) -> Manifest:
    return llm(template={**pod(), "initContainers": list(listed)}, **fields)


def test_storage_initializer_becomes_fetcher() -> None:
    other = {"name": "mine", "image": "i"}
    document = initialized(INITIALIZER, other)
    result = to_spec(document)
    wanted = {key: value for key, value in copy.deepcopy(INITIALIZER).items() if key != "name"}
    wanted["resources"]["requests"] = {"cpu": "100m", "memory": "100Mi"}
    assert result["model"]["fetcher"] == wanted
    assert result["roles"][0]["template"]["spec"]["initContainers"] == [other]
    (pods,) = [
        manifest
        for manifest in rendered(*convert(document))
        if "leaderWorkerTemplate" in manifest["spec"]
    ]
    (_, fetcher) = pods["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["initContainers"]
    assert {key: fetcher[key] for key in wanted} == wanted


def test_different_storage_initializers_are_rejected() -> None:
    again = {"template": {**pod(), "initContainers": [INITIALIZER]}}
    wired = initialized(INITIALIZER, prefill=again)
    assert not any("initContainers" in problem for problem in reject(wired))
    again["template"]["initContainers"] = [{**INITIALIZER, "image": "j"}]
    assert (
        "f: prefill.template.initContainers[0].image: cannot be carried over: must be the same "
        "in all pods of a service"
    ) in reject(initialized(INITIALIZER, prefill=again))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"volumeMounts": []},
            "f: template.initContainers[0].volumeMounts: cannot be carried over",
        ),
        ({"args": ["x"]}, "f: info: template.initContainers[0].args: KServe's controller overwri"),
    ],
)
def test_other_storage_initializer_fields_are_reported(more: Manifest, expected: str) -> None:
    document = initialized({**INITIALIZER, **more})
    assert any(
        message.replace("f: error: ", "f: ").startswith(expected) for message in check(document)
    )


def test_disabled_storage_initializer_is_an_ordinary_container() -> None:
    document = initialized(INITIALIZER, storageInitializer={"enabled": False})
    (kept,) = template(document)["initContainers"]
    assert kept == INITIALIZER


@pytest.mark.parametrize("uri", ["pvc://claim/model", "oci://registry.example/model:1"])
def test_only_adapters_are_downloaded_if_model_is_a_volume_or_image(uri: str) -> None:
    only_env = {"name": "storage-initializer", "env": [{"name": "A", "value": "b"}]}
    document = initialized(only_env, model={"uri": uri, "name": "m"})
    assert "initContainers" not in template(document)
    assert any(
        "ignored, as in KServe: models in volumes and " in message for message in check(document)
    )
    adapted = {"uri": uri, "name": "m", "lora": {"adapters": [{"name": "a", "uri": "hf://a/b"}]}}
    fetching = initialized(only_env, model=adapted)
    assert to_spec(fetching)["model"]["fetcher"] == {"env": only_env["env"]}


POD_IP = {"name": "POD_IP", "value": "1"}


def additional(value: str) -> Manifest:
    return {"name": "VLLM_ADDITIONAL_ARGS", "value": value}


@each_row(
    ("fields", "args"),
    [
        ({"env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--a 1 --b 'x y'"}]}, "--a|1|--b|x y"),
        ({"args": ["--a", "1"]}, "--a|1"),
        # The presets hand args to a shell, which splits them and takes quotes away.
        ({"args": ["--a 1", "--b='x y'"]}, "--a|1|--b=x y"),
        (
            {"env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--a 1"}], "args": ["--b"]},
            "--a|1|--b",
        ),
        (
            {
                "env": [
                    {"name": "POD_IP", "value": "1"},
                    {"name": "VLLM_ADDITIONAL_ARGS", "value": "--topic 'kv@${POD_IP}@m'"},
                ]
            },
            "--topic|kv@$(POD_IP)@m",
        ),
    ],
)
def test_preset_script_arguments_are_appended(fields: Manifest, args: str) -> None:
    (role,) = to_spec(llm(template=pod(**fields)))["roles"]
    assert container(role)["args"] == [*served(), *args.split("|")]
    names = [item["name"] for item in container(role).get("env", [])]
    assert "VLLM_ADDITIONAL_ARGS" not in names


@each_row(
    ("args", "words"),
    [
        (["--a", "$POD_IP"], ["--a", "$(POD_IP)"]),
        (["--a", "x${POD_IP}y"], ["--a", "x$(POD_IP)y"]),
        (["--a", "$(POD_IP)"], ["--a", "$(POD_IP)"]),
        (['--a "$(POD_IP)-$POD_IP"'], ["--a", "$(POD_IP)-$(POD_IP)"]),
        # What a shell leaves as it is.
        (["--a", "^b$"], ["--a", "^b$"]),
        ([r"--a \$POD_IP"], ["--a", "$POD_IP"]),
        ([r'--a "\$POD_IP"'], ["--a", "$POD_IP"]),
        (["--a '`b`'"], ["--a", "`b`"]),
    ],
)
def test_variables_in_arguments_use_kubelet_syntax(args: list[str], words: list[str]) -> None:
    (role,) = to_spec(llm(template=pod(args=args, env=[POD_IP])))["roles"]
    assert container(role)["args"] == [*served(), *words]


UNDEFINED = "refers to HOST, which the container's env does not define"
PROGRAM = "runs a program to compute its arguments; write the value"


@each_row(
    ("args", "at", "why"),
    [
        (["--a", "$HOST"], "args[1]", UNDEFINED),
        (["--a", "${HOST}"], "args[1]", UNDEFINED),
        (["--a", "$(hostname)"], "args[1]", PROGRAM),
        (["--a", "`hostname`"], "args[1]", PROGRAM),
        (['--a "$(hostname)"'], "args", PROGRAM),
        (["--a", "${POD_IP:-b}"], "args[1]",
         "contains ${POD_IP:-b}, which only a shell in the pod can expand; write the value"),
        (["--a", "$$"], "args[1]",
         "contains $$, which only a shell in the pod can expand; write the value"),
    ],
)  # fmt: skip
def test_shell_expansions_in_arguments_are_rejected(args: list[str], at: str, why: str) -> None:
    document = llm(template=pod(args=args, env=[POD_IP]))
    assert reject(document) == [f"f: template.containers[0].{at}: {why}"]


def test_kubelet_expands_only_earlier_variables() -> None:
    env = [POD_IP, additional("--a $(POD_IP)")]
    (role,) = to_spec(llm(template=pod(env=env)))["roles"]
    assert container(role)["args"] == [*served(), "--a", "$(POD_IP)"]
    # The shell would run a program POD_IP, because the kubelet does not expand later variables.
    assert reject(llm(template=pod(env=env[::-1]))) == [
        f"f: template.containers[0].env[0].value: {PROGRAM}"
    ]
    document = llm(template=pod(env=[additional("--a $POD_IP"), POD_IP]))
    assert any(
        "the kubelet expands its variables, even i" in message for message in check(document)
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("--a $(hostname)", "runs a program to compute its arguments; write the value"),
        ("--a $NOWHERE", "refers to NOWHERE, which the container's env does not define"),
        ("--a 'b", "is not valid shell syntax: No closing quotation"),
    ],
)
def test_shell_expansions_in_additional_arguments_are_rejected(value: str, why: str) -> None:
    env = [{"name": "VLLM_ADDITIONAL_ARGS", "value": value}]
    assert reject(llm(template=pod(env=env))) == [f"f: template.containers[0].env[0].value: {why}"]


def test_engines_without_kv_transfer_disable_it() -> None:
    document = llm(prefill={"template": pod()})
    prefill, decode = to_spec(document)["roles"]
    assert prefill["kvTransfer"] == decode["kvTransfer"] == {"enabled": False}
    for place in ("prefill", "spec"):
        assert any(
            f"f: warning: {place}: " in message
            and "no KV transfer is configured; unless the "
            "engines transfer the KV cache themselves, "
            "decode computes every prompt again"
            in message
            for message in check(document)
        )
    (lws, _) = [
        manifest
        for manifest in rendered(*convert(document))
        if "leaderWorkerTemplate" in manifest["spec"]
    ]
    (main,) = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    assert not any("kv-transfer" in item for item in main.get("args", ()))


def test_other_programs_get_pre_stop_of_presets() -> None:
    result = template(llm(template=pod(command=["/app/simulator"])))
    assert result["terminationGracePeriodSeconds"] == 60
    sleep = {"preStop": {"exec": {"command": ["/bin/sleep", "15"]}}}
    assert result["containers"][0]["lifecycle"] == sleep
    fields = {"preStop": {"sleep": {"seconds": 3}}}
    result = template(llm(template=pod(command=["/app/simulator"], lifecycle=fields)))
    assert result["containers"][0]["lifecycle"] == fields
    # For vLLM and SGLang the library generates the preStop hook.
    assert "lifecycle" not in template(llm())["containers"][0]


def pair(**decode: Any) -> Manifest:
    """Return a service with prefill and decode; `decode` adds fields to the decode pod."""
    transfer = '--kv-transfer-config \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''
    main = pod(env=[{"name": "VLLM_ADDITIONAL_ARGS", "value": transfer}])
    return llm(template={**main, **decode}, prefill={"template": main}, router=ROUTER)


def decoder(document: Manifest) -> Manifest:
    (role,) = (role for role in to_spec(document)["roles"] if role["componentType"] == "decoder")
    return dict(role)


def test_sidecar_accepts_only_addresses_of_its_pool() -> None:
    (leader,) = (
        manifest
        for manifest in rendered(*convert(pair()))
        if manifest["kind"] == "LeaderWorkerSet" and "decode" in manifest["metadata"]["name"]
    )
    (sidecar,) = leader["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["initContainers"][
        -1:
    ]
    assert "--enable-ssrf-protection=true" in sidecar["args"]


def test_sidecar_override_is_not_an_init_container() -> None:
    override = {
        "name": "llm-d-routing-sidecar",
        "image": "ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.10.0",
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "2"}},
        "args": ["--port=8000", "--kv-connector", "nixlv2", "--enable-prefiller-sampling=true"],
    }
    other = {"name": "wait", "image": "busybox", "command": ["true"]}
    role = decoder(pair(initContainers=[override, other]))
    assert role["kvTransfer"]["sidecar"] == {
        "image": override["image"],
        "resources": override["resources"],
        "args": ["--enable-prefiller-sampling=true"],
    }
    assert role["template"]["spec"]["initContainers"] == [other]
    (lost,) = reject(pair(initContainers=[{**override, "env": [{"name": "A", "value": "b"}]}]))
    assert lost.startswith(
        "f: template.initContainers[0].env: cannot be carried over: is not supported; the sidecar"
    )


def test_complete_command_is_unchanged() -> None:
    """As in KServe's workload-simulated-dp-ep-cpu."""
    main = pod(
        command=["vllm", "serve", "/mnt/models"],
        args=["--served-model-name", "llm", "--port", "8000"],
        image="vllm/vllm-openai:v0.11.0",
    )
    document = llm(
        template=main,
        worker=main,
        parallelism={"data": 2, "dataLocal": 1, "expert": True, "tensor": 1},
    )
    (role,) = to_spec(document)["roles"]
    assert "parallelism" not in role
    assert role["multinode"] == {"nodeCount": 2, "launcher": "none"}
    (item,) = (
        manifest
        for manifest in rendered(*convert(document))
        if manifest["kind"] == "LeaderWorkerSet"
    )
    pods = item["spec"]["leaderWorkerTemplate"]
    for block in ("leaderTemplate", "workerTemplate"):
        container = pods[block]["spec"]["containers"][0]
        assert (container["command"], container["args"]) == (
            main["containers"][0]["command"],
            main["containers"][0]["args"],
        )


def test_mounted_model_is_not_downloaded() -> None:
    weights = add_volumes(
        {"name": "weights", "persistentVolumeClaim": {"claimName": "c"}},
        volumeMounts=[{"name": "weights", "mountPath": "/mnt/models/"}],
    )
    document = llm(template=weights, storageInitializer={"enabled": False})
    result = to_spec(document)
    assert "model" not in result
    (role,) = result["roles"]
    assert container(role)["args"] == ["/mnt/models", *served()]
    pods = [
        manifest
        for manifest in rendered(*convert(document))
        if manifest["kind"] == "LeaderWorkerSet"
    ]
    assert "initContainers" not in pods[0]["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert any("model.uri: not downloaded; the pods mount th" in line for line in check(document))
    # Without the mount the engine downloads it, as before.
    assert to_spec(llm(storageInitializer={"enabled": False}))["model"]["fetch"] == "Engine"


def test_user_served_model_name_replaces_generated_names() -> None:
    model = {"uri": "hf://a/b", "name": "m"}
    (role,) = to_spec(llm(model=model, template=pod(args=["--served-model-name=m"])))["roles"]
    assert container(role)["args"] == ["--served-model-name=m"]


def test_pods_are_gang_scheduled_only_with_volcano() -> None:
    alone = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}
    ranks = llm(template=pod(), worker=pod(), parallelism=RANKS)
    for document in (pair(), ranks):
        assert alone.items() <= to_spec(document).items()
        assert "PodGroup" not in {manifest["kind"] for manifest in rendered(*convert(document))}
        assert any(
            line.startswith(
                "f: info: template.schedulerName: not set; pods are scheduled one by one"
            )
            for line in check(document)
        )
    volcano = {"schedulerName": "volcano"}
    for document in (pair(**volcano), llm(template=pod(), worker={**pod(), **volcano},
                                          parallelism=RANKS)):  # fmt: skip
        assert "schedulingStrategy" not in to_spec(document)
        assert "PodGroup" in {manifest["kind"] for manifest in rendered(*convert(document))}
    # A single pod needs no gang.
    assert "schedulingStrategy" not in to_spec(llm())
