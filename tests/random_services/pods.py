"""Pod templates: containers, volumes, metadata, and the command lines of engines."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from random_services.seeded_random import SeededRandom

Manifest = dict[str, Any]

#: Texts that careless YAML or shell quoting would change.
AWKWARD = (
    "yes", "null", "~", "1", "1.50", "0x1F", "012", "12:30", "2024-01-01", "- a", "a: b",
    "# no comment", " leading", "trailing ", "it's", '"quoted"', '{"a": [1, "b"]}', "$HOME",
    "$(NAME)", "two\nlines\n", "tab\there", "&anchor", "*alias", "!tag", "%", "ünïcödé 日本",
    "\N{GRINNING FACE}", "", "\\",
)  # fmt: skip

VLLM_IMAGES = {
    "v0.22.0": "vllm/vllm-openai:v0.22.0",
    "v0.25.1": "registry.example.com:5000/mirror/vllm/vllm-openai:v0.25.1",
    "v0.12.0": "vllm/vllm-openai:v0.12.0",
    "v0.11.0": "vllm/vllm-openai:v0.11.0",
    "without a release": "vllm/vllm-openai:latest",
    "of the user's own": "registry.example.com/team/vllm-patched:7",
}
SGLANG_IMAGES = {
    "v0.5.3": "lmsysorg/sglang:v0.5.3",
    "v0.5.23": "registry.example.com/lmsysorg/sglang:v0.5.23-cu129",
    "without a release": "lmsysorg/sglang:latest",
}
#: The user's own program, in an image that names no engine.
OTHER_IMAGES = {"other": "registry.example.com/team/server:1"}

#: Flags of a command line: the flag, or the flag and its value.
Flags = list[tuple[str, ...]]


@dataclass
class Engine:
    """The engine of a role and its command line.

    Attributes:
        name: `vllm`, `sglang` or `other`.
        image: The container image.
        model: The model in the command line; None if the service's `model` sets it.
        serve: Whether the launcher needs `vllm serve`.
        flags: All other flags of the command line.
    """

    name: str
    image: str
    model: str | None = None
    serve: bool = False
    flags: Flags = field(default_factory=list)

    @property
    def release(self) -> tuple[int, ...]:
        """The release in the image's tag, or a new release if the tag has none."""
        digits = self.image.rpartition(":")[2].partition("-")[0].removeprefix("v").split(".")
        return tuple(map(int, digits)) if len(digits) == 3 else (1, 0, 0)


def command_line(rng: SeededRandom, engine: Engine) -> Manifest:
    """Return command and args of an engine, in one of the forms that users write."""
    forms = dict(_FORMS[engine.name])
    if engine.serve and rng.chance(0.9):
        del forms["module"]
    return rng.option(f"{engine.name} command", forms)(rng, engine)


def _words(rng: SeededRandom, flags: Flags) -> list[str]:
    """Return the words of flags, as `--flag value` or `--flag=value`."""
    equals = rng.chance(0.3)
    return [
        word
        for flag in flags
        for word in (["=".join(flag)] if equals and flag[0].startswith("--") else flag)
    ]


def _model_flag(engine: Engine, flag: str = "--model") -> Flags:
    return [] if engine.model is None else [(flag, engine.model)]


def _positional(engine: Engine) -> list[str]:
    return [] if engine.model is None else [engine.model]


def _vllm_image(rng: SeededRandom, engine: Engine) -> Manifest:
    return {"args": _words(rng, [*_model_flag(engine), *engine.flags])}


def _vllm_serve(rng: SeededRandom, engine: Engine) -> Manifest:
    words = _words(rng, engine.flags)
    return {"command": ["vllm", "serve"], "args": [*_positional(engine), *words]}


def _vllm_in_args(rng: SeededRandom, engine: Engine) -> Manifest:
    return {"args": ["vllm", "serve", *_positional(engine), *_words(rng, engine.flags)]}


def _vllm_in_command(rng: SeededRandom, engine: Engine) -> Manifest:
    return {"command": ["vllm", "serve", *_positional(engine), *_words(rng, engine.flags)]}


def _vllm_module(rng: SeededRandom, engine: Engine) -> Manifest:
    words = _words(rng, [*_model_flag(engine), *engine.flags])
    return {"command": ["python3", "-m", "vllm.entrypoints.openai.api_server"], "args": words}


def _vllm_cli_module(rng: SeededRandom, engine: Engine) -> Manifest:
    command = ["python3", "-u", "-m", "vllm.entrypoints.cli.main", "serve"]
    return {"command": command, "args": [*_positional(engine), *_words(rng, engine.flags)]}


def _vllm_with_prefix(rng: SeededRandom, engine: Engine) -> Manifest:
    prefix = rng.choice(["env", "NCCL_DEBUG=INFO"], ["numactl", "--all"], ["tini", "--"])
    words = [*_positional(engine), *_words(rng, engine.flags)]
    return {"command": [*prefix, "/usr/bin/vllm", "serve"], "args": words}


def _vllm_script_arguments(rng: SeededRandom, engine: Engine) -> Manifest:
    words = [*_positional(engine), *_words(rng, engine.flags)]
    return {"command": ["/bin/sh", "-c", 'exec vllm serve "$@"', "sh"], "args": words}


def _vllm_script(rng: SeededRandom, engine: Engine) -> Manifest:
    words = ["vllm", "serve", *_positional(engine), *_words(rng, engine.flags)]
    return _script(rng, shlex.join(words))


def _sglang_image(rng: SeededRandom, engine: Engine) -> Manifest:
    words = _words(rng, [*_model_flag(engine, "--model-path"), *engine.flags])
    return {"command": ["python3", "-m", "sglang.launch_server"], "args": words}


def _sglang_in_command(rng: SeededRandom, engine: Engine) -> Manifest:
    words = _words(rng, [*_model_flag(engine, "--model-path"), *engine.flags])
    return {"command": ["python3", "-m", "sglang.launch_server", *words]}


def _sglang_script(rng: SeededRandom, engine: Engine) -> Manifest:
    words = _words(rng, [*_model_flag(engine, "--model-path"), *engine.flags])
    return _script(rng, shlex.join(["python3", "-m", "sglang.launch_server", *words]))


_SCRIPTS = {
    "command alone": "{}",
    "exec": "exec {}",
    "set -e": "set -e\nexec {}\n",
    "export": "export HF_HUB_OFFLINE=1\n{}",
    "and": "ulimit -l unlimited && exec {}",
    "several lines": "# starts the engine\nexec {}",
}
_OTHER_SCRIPTS = {
    "assignment": "NCCL_DEBUG=INFO OMP_NUM_THREADS=1 {}",
    "substitution": '{} --host "$(hostname -i)" --revision ${REVISION:-main}',
    "redirection": "{} > /logs/engine.log 2>&1",
    "pipe": "{} 2>&1 | tee /logs/engine.log",
    "wait loop": "until test -f /ready; do sleep 1; done; {}",
    "condition": 'if [ "$DEBUG" = 1 ]; then set -x; fi\n{}',
    "not the last": "{}\necho ended",
    "hidden arguments": "{} $MORE_ARGUMENTS",
    "unreadable": "cat <<EOF\nstarting\nEOF\n{}",
}
_SHELLS = (
    ["/bin/sh", "-c"],
    ["bash", "-c"],
    ["/bin/bash", "-euo", "pipefail", "-c"],
    ["tini", "--", "/bin/sh", "-c"],
)


def _script(rng: SeededRandom, command: str) -> Manifest:
    """Return a shell script that runs a command."""
    text = rng.option("script", _OTHER_SCRIPTS if rng.chance(0.35) else _SCRIPTS)
    if text.startswith("#"):
        command = command.replace(" --", " \\\n  --")
    text = text.replace("{}", command)
    shell = rng.choice(*_SHELLS)
    return rng.choice({"command": shell, "args": [text]}, {"command": [*shell, text]})


def _program(rng: SeededRandom, engine: Engine) -> Manifest:
    return {"command": ["/app/serve"], "args": [*_positional(engine), *rng.subset(("--fast",))]}


def _ray_worker(_draw: SeededRandom, _engine: Engine) -> Manifest:
    join = "ray start --address=$(LWS_LEADER_ADDRESS):6379 --block"
    return {"command": ["/bin/sh", "-c"], "args": [join]}


def _entrypoint(_draw: SeededRandom, engine: Engine) -> Manifest:
    return {"args": _positional(engine)} if engine.model else {}


Form = Callable[[SeededRandom, Engine], Manifest]
_VLLM_FORMS: Mapping[str, Form] = {
    "image": _vllm_image,
    "serve": _vllm_serve,
    "serve in args": _vllm_in_args,
    "serve in command": _vllm_in_command,
    "module": _vllm_module,
    "script": _vllm_script,
    "script and script's arguments": _vllm_script_arguments,
    "module of the command line": _vllm_cli_module,
    "behind a prefix": _vllm_with_prefix,
}
_SGLANG_FORMS: Mapping[str, Form] = {
    "module": _sglang_image,
    "module in command": _sglang_in_command,
    "script": _sglang_script,
}
_FORMS = {
    "vllm": _VLLM_FORMS,
    "sglang": _SGLANG_FORMS,
    "other": {"program": _program, "entrypoint": _entrypoint},
    # Only for workers with their own template.
    "ray worker": {"script": _ray_worker},
    "worker without a command": {"entrypoint": _entrypoint},
}


@dataclass(frozen=True)
class Needs:
    """Requirements of a role's fields for its pods.

    Attributes:
        devices: Accelerators of the pod; None if it requests none.
        memory: Memory limit; None means a random one.
        port: Port to declare, if any.
        quiet: Whether the container has no probes and hooks.
        sidecar: Whether the pod template has its own P/D sidecar.
    """

    devices: int | None
    memory: str | None = None
    port: int | None = None
    quiet: bool = False
    sidecar: bool = False


def pod_template(rng: SeededRandom, engine: Engine, needs: Needs, name: str) -> Manifest:
    """Return a pod template whose serving container has the name."""
    volumes = _volumes(rng.stream("volumes"))
    serving = _serving_container(rng.stream("serving"), engine, needs, volumes, name)
    other = rng.stream("beside")
    count = other.choice(0, 0, 0, 1, 2)
    containers = [serving, *(_side_container(other, f"side-{n}", volumes) for n in range(count))]
    if other.chance(0.3):
        containers.reverse()
    spec: Manifest = {"containers": containers}
    if needs.sidecar:
        image = "ghcr.io/llm-d/llm-d-routing-sidecar:v0.6.0"
        containers.append({"name": "routing-proxy", "image": image, "args": ["--port=8000"]})
    inits = [_side_container(other, f"init-{n}", volumes) for n in range(other.choice(0, 0, 1, 2))]
    if inits and other.chance(0.4):
        inits[-1]["restartPolicy"] = "Always"
    if inits:
        spec["initContainers"] = inits
    if volumes:
        spec["volumes"] = volumes
    spec |= _pod_fields(rng.stream("pod"))
    metadata = _metadata(rng.stream("metadata"))
    return {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}


def _volumes(rng: SeededRandom) -> list[Manifest]:
    sources: dict[str, Manifest] = {
        "folder": {"emptyDir": {}},
        "memory": {"emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        "settings": {"configMap": {"name": "settings", "optional": True}},
        "token": {"secret": {"secretName": "token"}},
        "host": {"hostPath": {"path": "/mnt/disk", "type": "DirectoryOrCreate"}},
        "labels": {"downwardAPI": {"items": [
            {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}
        ]}},
        "claim": {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
    }  # fmt: skip
    return [{"name": name, **sources[name]} for name in rng.subset(sources, 0.15)]


def _mounts(rng: SeededRandom, volumes: Sequence[Manifest]) -> list[Manifest]:
    return [
        {"name": item["name"], "mountPath": f"/volumes/{item['name']}", **rng.fields(readOnly=True)}
        for item in rng.subset(volumes, 0.7)
    ]


def _side_container(rng: SeededRandom, name: str, volumes: Sequence[Manifest]) -> Manifest:
    container: Manifest = {"name": name, "image": "registry.example.com:5000/tools/helper:1.2"}
    container |= rng.fields(
        command=["/bin/sh", "-c", "sleep $((60 * 60))"],
        env=[{"name": "TEXT", "value": rng.choice(*AWKWARD)}],
        resources=({"requests": {"cpu": "50m"}}, {"limits": {"cpu": "1", "memory": "128Mi"}}, {}),
        ports=[{"containerPort": 9900 + int(name[-1]) + (10 if name[0] == "i" else 0)}],
    )
    mounts = _mounts(rng, volumes)
    return {**container, "volumeMounts": mounts} if mounts else container


def _serving_container(
    rng: SeededRandom, engine: Engine, needs: Needs, volumes: Sequence[Manifest], name: str
) -> Manifest:
    command = command_line(rng.stream("command"), engine)
    container: Manifest = {"name": name, "image": engine.image, **command}
    ports: list[Manifest] = []
    if needs.port is not None:
        ports.append({"containerPort": needs.port, **rng.fields(0.7, name="http")})
        if rng.chance(0.2):
            ports.insert(0, {"containerPort": 9400, "name": "metrics", "protocol": "TCP"})
            ports[-1]["name"] = "http"
        ports[-1] |= rng.fields(0.03, hostPort=needs.port)
    if ports:
        container["ports"] = ports
    container["resources"] = _resources(rng.stream("resources"), needs)
    container |= _variables(rng.stream("env"))
    if not needs.quiet:
        container |= _probes(rng.stream("probes"), needs.port)
    container |= rng.stream("fields").fields(
        0.12,
        imagePullPolicy=("Always", "IfNotPresent"),
        workingDir="/work",
        securityContext={"capabilities": {"add": ["SYS_NICE"]}},
        terminationMessagePolicy="FallbackToLogsOnError",
    )
    mounts = _mounts(rng.stream("mounts"), volumes)
    if mounts and rng.chance(0.05):
        mounts[0]["mountPath"] = "/dev/shm"
    return {**container, "volumeMounts": mounts} if mounts else container


def _resources(rng: SeededRandom, needs: Needs) -> Manifest:
    limits: Manifest = {}
    requests: Manifest = rng.fields(0.6, cpu=("500m", 4, "1.5"))
    if needs.devices:
        names = ("nvidia.com/gpu", "nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi")
        resource = rng.choice(*names)
        limits[resource] = rng.choice(needs.devices, str(needs.devices))
        requests |= rng.fields(0.3, **{resource: limits[resource]})
    elif rng.chance(0.8):
        limits["cpu"] = "8"
    memory = needs.memory or rng.choice(None, None, "64Gi", "1.5Ti", "500G")
    if memory is not None:
        limits["memory"] = memory
        if rng.chance(0.3):
            requests["memory"] = memory
    if rng.chance(0.1):
        requests["ephemeral-storage"] = "10Gi"
    return {"limits": limits, **({"requests": requests} if requests else {})}


def _variables(rng: SeededRandom) -> Manifest:
    values = [
        {"name": "PROMPT", "value": rng.choice(*AWKWARD)},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LEADER", "value": "$(LWS_LEADER_ADDRESS)"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "OTEL_SERVICE_NAME", "value": "mine"},
        {"name": "GROUP_SIZE", "value": "1"},
        {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": "5800"},
        {"name": "HF_TOKEN", "value": "hf_abcdefghijklmnopqrstuvwxyz"},
    ]
    chosen = rng.subset(values, 0.15)
    findings: Manifest = {"env": chosen} if chosen else {}
    return findings | rng.fields(0.1, envFrom=[{"configMapRef": {"name": "settings"}}])


def _probes(rng: SeededRandom, port: int | None) -> Manifest:
    if port is None:
        return rng.fields(0.1, livenessProbe={"exec": {"command": ["true"]}})
    health = {"httpGet": {"path": "/health", "port": port}}
    return rng.fields(
        0.15,
        readinessProbe={"httpGet": {"path": "/ready", "port": port}, "failureThreshold": 30},
        livenessProbe=({"tcpSocket": {"port": port}}, {**health, "initialDelaySeconds": 900}),
        lifecycle=(
            {"preStop": {"exec": {"command": ["sleep", "5"]}}},
            {"postStart": {"httpGet": {"path": "/", "port": port}}},
        ),
        startupProbe={**health, "failureThreshold": 200},
    )


def _pod_fields(rng: SeededRandom) -> Manifest:
    node_term = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    fields = {"matchLabels": {"app": "chat"}}
    spec = rng.fields(
        0.12,
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        nodeSelector={"kubernetes.io/os": "linux"},
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [node_term]}]
        }}},
        imagePullSecrets=[{"name": "registry"}],
        serviceAccountName="engine",
        terminationGracePeriodSeconds=(10, 30, 300),
        securityContext={"fsGroup": 1000},
        topologySpreadConstraints=[{
            "maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": fields,
        }],
        shareProcessNamespace=True,
        dnsPolicy="ClusterFirst",
        runtimeClassName="nvidia",
        automountServiceAccountToken=False,
    )  # fmt: skip
    rare = rng.fields(
        0.03,
        hostIPC=True,
        hostNetwork=True,
        priorityClassName="high",
        schedulerName="volcano",
        resourceClaims=[{"name": "own", "resourceClaimName": "own"}],
    )
    return spec | rare


def _metadata(rng: SeededRandom) -> Manifest:
    metadata: Manifest = {}
    labels = rng.subset({"app": "chat", "example.com/cost-centre": "42", "tier": ""}.items(), 0.15)
    if labels:
        metadata["labels"] = dict(labels)
    if rng.chance(0.02):
        metadata["labels"] = {"llm-d.ai/role": "both", "fusioninfer.io/team": "x"}
    notes = rng.subset(("note", "example.com/owner", "prometheus.io/scrape"), 0.12)
    if notes:
        metadata["annotations"] = {name: rng.choice(*AWKWARD) for name in notes}
    return metadata


def kv_transfer_flag(rng: SeededRandom, connector: str, role: str) -> tuple[str, ...]:
    """Return vLLM's `--kv-transfer-config`, sometimes as one word."""
    settings: Manifest = {"kv_connector": connector, "kv_role": role}
    if rng.chance(0.15):
        several = [settings, {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}]
        settings = {"kv_connector": "MultiConnector", "kv_role": "kv_both",
                    "kv_connector_extra_config": {"connectors": several}}  # fmt: skip
    value = json.dumps(settings)
    if rng.chance(0.3):
        return (f"--kv-transfer-config '{value}'",)
    return "--kv-transfer-config", value
