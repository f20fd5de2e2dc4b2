"""Pod templates: containers, volumes, metadata, and the command lines of engines."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drawn_services.draw import Draw

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
#: A program of the user's own, in an image that names no engine.
OTHER_IMAGES = {"other": "registry.example.com/team/server:1"}

#: Flags of a command line: the flag, or the flag and its value.
Flags = list[tuple[str, ...]]


@dataclass
class Engine:
    """The engine of a role, and what its command line says.

    Attributes:
        name: `vllm`, `sglang` or `other`.
        image: Its image.
        model: The model that the command line names; None where the service's `model` names it.
        serve: Whether its launcher needs `vllm serve`.
        flags: Everything else of the command line.
    """

    name: str
    image: str
    model: str | None = None
    serve: bool = False
    flags: Flags = field(default_factory=list)

    @property
    def release(self) -> tuple[int, ...]:
        """Numbers of the release in the image's tag; those of a new one where there is none."""
        digits = self.image.rpartition(":")[2].partition("-")[0].removeprefix("v").split(".")
        return tuple(map(int, digits)) if len(digits) == 3 else (1, 0, 0)


def command_line(draw: Draw, engine: Engine) -> Manifest:
    """Command and args of an engine, in one of the forms that users write."""
    forms = dict(_FORMS[engine.name])
    if engine.serve and draw.chance(0.9):
        del forms["module"]
    return draw.option(f"{engine.name} command", forms)(draw, engine)


def _words(draw: Draw, flags: Flags) -> list[str]:
    """Flags as words; values stand apart or after `=`."""
    equals = draw.chance(0.3)
    return [
        word
        for flag in flags
        for word in (["=".join(flag)] if equals and flag[0].startswith("--") else flag)
    ]


def _model_flag(engine: Engine, flag: str = "--model") -> Flags:
    return [] if engine.model is None else [(flag, engine.model)]


def _positional(engine: Engine) -> list[str]:
    return [] if engine.model is None else [engine.model]


def _vllm_image(draw: Draw, engine: Engine) -> Manifest:
    return {"args": _words(draw, [*_model_flag(engine), *engine.flags])}


def _vllm_serve(draw: Draw, engine: Engine) -> Manifest:
    words = _words(draw, engine.flags)
    return {"command": ["vllm", "serve"], "args": [*_positional(engine), *words]}


def _vllm_in_args(draw: Draw, engine: Engine) -> Manifest:
    return {"args": ["vllm", "serve", *_positional(engine), *_words(draw, engine.flags)]}


def _vllm_in_command(draw: Draw, engine: Engine) -> Manifest:
    return {"command": ["vllm", "serve", *_positional(engine), *_words(draw, engine.flags)]}


def _vllm_module(draw: Draw, engine: Engine) -> Manifest:
    words = _words(draw, [*_model_flag(engine), *engine.flags])
    return {"command": ["python3", "-m", "vllm.entrypoints.openai.api_server"], "args": words}


def _vllm_cli_module(draw: Draw, engine: Engine) -> Manifest:
    command = ["python3", "-u", "-m", "vllm.entrypoints.cli.main", "serve"]
    return {"command": command, "args": [*_positional(engine), *_words(draw, engine.flags)]}


def _vllm_with_prefix(draw: Draw, engine: Engine) -> Manifest:
    prefix = draw.one(["env", "NCCL_DEBUG=INFO"], ["numactl", "--all"], ["tini", "--"])
    words = [*_positional(engine), *_words(draw, engine.flags)]
    return {"command": [*prefix, "/usr/bin/vllm", "serve"], "args": words}


def _vllm_script_arguments(draw: Draw, engine: Engine) -> Manifest:
    words = [*_positional(engine), *_words(draw, engine.flags)]
    return {"command": ["/bin/sh", "-c", 'exec vllm serve "$@"', "sh"], "args": words}


def _vllm_script(draw: Draw, engine: Engine) -> Manifest:
    words = ["vllm", "serve", *_positional(engine), *_words(draw, engine.flags)]
    return _script(draw, shlex.join(words))


def _sglang_image(draw: Draw, engine: Engine) -> Manifest:
    words = _words(draw, [*_model_flag(engine, "--model-path"), *engine.flags])
    return {"command": ["python3", "-m", "sglang.launch_server"], "args": words}


def _sglang_in_command(draw: Draw, engine: Engine) -> Manifest:
    words = _words(draw, [*_model_flag(engine, "--model-path"), *engine.flags])
    return {"command": ["python3", "-m", "sglang.launch_server", *words]}


def _sglang_script(draw: Draw, engine: Engine) -> Manifest:
    words = _words(draw, [*_model_flag(engine, "--model-path"), *engine.flags])
    return _script(draw, shlex.join(["python3", "-m", "sglang.launch_server", *words]))


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


def _script(draw: Draw, command: str) -> Manifest:
    """A shell's script around a command."""
    text = draw.option("script", _OTHER_SCRIPTS if draw.chance(0.35) else _SCRIPTS)
    if text.startswith("#"):
        command = command.replace(" --", " \\\n  --")
    text = text.replace("{}", command)
    shell = draw.one(*_SHELLS)
    return draw.one({"command": shell, "args": [text]}, {"command": [*shell, text]})


def _program(draw: Draw, engine: Engine) -> Manifest:
    return {"command": ["/app/serve"], "args": [*_positional(engine), *draw.some(("--fast",))]}


def _ray_worker(_draw: Draw, _engine: Engine) -> Manifest:
    join = "ray start --address=$(LWS_LEADER_ADDRESS):6379 --block"
    return {"command": ["/bin/sh", "-c"], "args": [join]}


def _entrypoint(_draw: Draw, engine: Engine) -> Manifest:
    return {"args": _positional(engine)} if engine.model else {}


Form = Callable[[Draw, Engine], Manifest]
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
    # Workers with a template of their own.
    "ray worker": {"script": _ray_worker},
    "worker without a command": {"entrypoint": _entrypoint},
}


@dataclass(frozen=True)
class Needs:
    """What the fields of a role ask of its pods.

    Attributes:
        devices: Accelerators of the pod, or None for none.
        memory: Memory limit, None where the draw decides.
        port: Port to declare, or None for none.
        quiet: Whether probes and hooks are left out.
        sidecar: Whether the pod brings a sidecar for prefill and decode.
    """

    devices: int | None
    memory: str | None = None
    port: int | None = None
    quiet: bool = False
    sidecar: bool = False


def pod_template(draw: Draw, engine: Engine, needs: Needs, name: str) -> Manifest:
    """A pod template whose container of that name serves."""
    volumes = _volumes(draw.of("volumes"))
    serving = _serving_container(draw.of("serving"), engine, needs, volumes, name)
    other = draw.of("beside")
    count = other.one(0, 0, 0, 1, 2)
    containers = [serving, *(_side_container(other, f"side-{n}", volumes) for n in range(count))]
    if other.chance(0.3):
        containers.reverse()
    spec: Manifest = {"containers": containers}
    if needs.sidecar:
        image = "ghcr.io/llm-d/llm-d-routing-sidecar:v0.6.0"
        containers.append({"name": "routing-proxy", "image": image, "args": ["--port=8000"]})
    inits = [_side_container(other, f"init-{n}", volumes) for n in range(other.one(0, 0, 1, 2))]
    if inits and other.chance(0.4):
        inits[-1]["restartPolicy"] = "Always"
    if inits:
        spec["initContainers"] = inits
    if volumes:
        spec["volumes"] = volumes
    spec |= _pod_fields(draw.of("pod"))
    metadata = _metadata(draw.of("metadata"))
    return {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}


def _volumes(draw: Draw) -> list[Manifest]:
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
    return [{"name": name, **sources[name]} for name in draw.some(sources, 0.15)]


def _mounts(draw: Draw, volumes: Sequence[Manifest]) -> list[Manifest]:
    return [
        {
            "name": item["name"],
            "mountPath": f"/volumes/{item['name']}",
            **draw.fields(readOnly=True),
        }
        for item in draw.some(volumes, 0.7)
    ]


def _side_container(draw: Draw, name: str, volumes: Sequence[Manifest]) -> Manifest:
    container: Manifest = {"name": name, "image": "registry.example.com:5000/tools/helper:1.2"}
    container |= draw.fields(
        command=["/bin/sh", "-c", "sleep $((60 * 60))"],
        env=[{"name": "TEXT", "value": draw.one(*AWKWARD)}],
        resources=(
            {"requests": {"cpu": "50m"}},
            {"limits": {"cpu": "1", "memory": "128Mi"}},
            {},
        ),
        ports=[{"containerPort": 9900 + int(name[-1]) + (10 if name[0] == "i" else 0)}],
    )
    mounts = _mounts(draw, volumes)
    return {**container, "volumeMounts": mounts} if mounts else container


def _serving_container(
    draw: Draw, engine: Engine, needs: Needs, volumes: Sequence[Manifest], name: str
) -> Manifest:
    command = command_line(draw.of("command"), engine)
    container: Manifest = {"name": name, "image": engine.image, **command}
    ports: list[Manifest] = []
    if needs.port is not None:
        ports.append({"containerPort": needs.port, **draw.fields(0.7, name="http")})
        if draw.chance(0.2):
            ports.insert(0, {"containerPort": 9400, "name": "metrics", "protocol": "TCP"})
            ports[-1]["name"] = "http"
        ports[-1] |= draw.fields(0.03, hostPort=needs.port)
    if ports:
        container["ports"] = ports
    container["resources"] = _resources(draw.of("resources"), needs)
    container |= _variables(draw.of("env"))
    if not needs.quiet:
        container |= _probes(draw.of("probes"), needs.port)
    container |= draw.of("fields").fields(
        0.12,
        imagePullPolicy=("Always", "IfNotPresent"),
        workingDir="/work",
        securityContext={"capabilities": {"add": ["SYS_NICE"]}},
        terminationMessagePolicy="FallbackToLogsOnError",
    )
    mounts = _mounts(draw.of("mounts"), volumes)
    if mounts and draw.chance(0.05):
        mounts[0]["mountPath"] = "/dev/shm"
    return {**container, "volumeMounts": mounts} if mounts else container


def _resources(draw: Draw, needs: Needs) -> Manifest:
    limits: Manifest = {}
    requests: Manifest = draw.fields(0.6, cpu=("500m", 4, "1.5"))
    if needs.devices:
        names = ("nvidia.com/gpu", "nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi")
        resource = draw.one(*names)
        limits[resource] = draw.one(needs.devices, str(needs.devices))
        requests |= draw.fields(0.3, **{resource: limits[resource]})
    elif draw.chance(0.8):
        limits["cpu"] = "8"
    memory = needs.memory or draw.one(None, None, "64Gi", "1.5Ti", "500G")
    if memory is not None:
        limits["memory"] = memory
        if draw.chance(0.3):
            requests["memory"] = memory
    if draw.chance(0.1):
        requests["ephemeral-storage"] = "10Gi"
    return {"limits": limits, **({"requests": requests} if requests else {})}


def _variables(draw: Draw) -> Manifest:
    values = [
        {"name": "PROMPT", "value": draw.one(*AWKWARD)},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LEADER", "value": "$(LWS_LEADER_ADDRESS)"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "OTEL_SERVICE_NAME", "value": "mine"},
        {"name": "GROUP_SIZE", "value": "1"},
        {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": "5800"},
        {"name": "HF_TOKEN", "value": "hf_abcdefghijklmnopqrstuvwxyz"},
    ]
    chosen = draw.some(values, 0.15)
    findings: Manifest = {"env": chosen} if chosen else {}
    return findings | draw.fields(0.1, envFrom=[{"configMapRef": {"name": "settings"}}])


def _probes(draw: Draw, port: int | None) -> Manifest:
    if port is None:
        return draw.fields(0.1, livenessProbe={"exec": {"command": ["true"]}})
    health = {"httpGet": {"path": "/health", "port": port}}
    return draw.fields(
        0.15,
        readinessProbe={"httpGet": {"path": "/ready", "port": port}, "failureThreshold": 30},
        livenessProbe=({"tcpSocket": {"port": port}}, {**health, "initialDelaySeconds": 900}),
        lifecycle=(
            {"preStop": {"exec": {"command": ["sleep", "5"]}}},
            {"postStart": {"httpGet": {"path": "/", "port": port}}},
        ),
        startupProbe={**health, "failureThreshold": 200},
    )


def _pod_fields(draw: Draw) -> Manifest:
    node_term = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    fields = {"matchLabels": {"app": "chat"}}
    spec = draw.fields(
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
    rare = draw.fields(
        0.03,
        hostIPC=True,
        hostNetwork=True,
        priorityClassName="high",
        schedulerName="volcano",
        resourceClaims=[{"name": "own", "resourceClaimName": "own"}],
    )
    return spec | rare


def _metadata(draw: Draw) -> Manifest:
    metadata: Manifest = {}
    labels = draw.some({"app": "chat", "example.com/cost-centre": "42", "tier": ""}.items(), 0.15)
    if labels:
        metadata["labels"] = dict(labels)
    if draw.chance(0.02):
        metadata["labels"] = {"llm-d.ai/role": "both", "fusioninfer.io/team": "x"}
    notes = draw.some(("note", "example.com/owner", "prometheus.io/scrape"), 0.12)
    if notes:
        metadata["annotations"] = {name: draw.one(*AWKWARD) for name in notes}
    return metadata


def kv_transfer_flag(draw: Draw, connector: str, role: str) -> tuple[str, ...]:
    """vLLM's flag that says how the KV cache is handed over; sometimes written as one word."""
    settings: Manifest = {"kv_connector": connector, "kv_role": role}
    if draw.chance(0.15):
        several = [settings, {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}]
        settings = {"kv_connector": "MultiConnector", "kv_role": "kv_both",
                    "kv_connector_extra_config": {"connectors": several}}  # fmt: skip
    value = json.dumps(settings)
    if draw.chance(0.3):
        return (f"--kv-transfer-config '{value}'",)
    return "--kv-transfer-config", value
