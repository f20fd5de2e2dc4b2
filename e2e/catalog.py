"""Which programs and CRDs the end-to-end tests use, and where each comes from.

Versions are pinned by `tools/<module>/go.mod` and verified by its go.sum; nothing here repeats a
version that a go.mod states.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

TOOLS_DIR = Path(__file__).resolve().parent / "tools"


@dataclass(frozen=True)
class Tool:
    """One Go module of `tools/`: the programs built and the YAML copied from it.

    Attributes:
        name: Folder under `tools/`, and the name on the command line.
        source: The Go module whose version is the tool's version.
        programs: Name of the binary -> its main package.
        manifests: Name of a group -> glob patterns inside the source module.
        ldflags: Extra linker flags; `{version}` is the module's version.
        optional: Built only when named with `--only`.
    """

    name: str
    source: str
    programs: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ldflags: str = ""
    optional: bool = False

    @property
    def folder(self) -> Path:
        return TOOLS_DIR / self.name

    @property
    def version(self) -> str:
        """The pinned version of the source module, as its go.mod says."""
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        pattern = rf"^(?:require)?\s+{re.escape(self.source)} (v\S+)"
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            raise ValueError(f"{self.folder / 'go.mod'} requires no version of {self.source}")
        return match.group(1)

    @property
    def directory(self) -> Path:
        """Where the finished tool is kept: the name changes with whatever changes the result."""
        key = hashlib.sha256()
        for path in [self.folder / "go.mod", self.folder / "go.sum", *self.folder.glob("*.go")]:
            key.update(path.read_bytes())
        recipe = [self.programs, {k: list(v) for k, v in self.manifests.items()}, self.ldflags]
        key.update(json.dumps(recipe, sort_keys=True).encode())
        return cache_root() / f"{self.name}-{self.version}-{key.hexdigest()[:12]}"

    @property
    def is_built(self) -> bool:
        """Whether the finished tool is there; a half-built one never has this name."""
        return self.directory.is_dir()


def cache_root() -> Path:
    """The cache for built tools, shared by all checkouts of one user."""
    configured = os.environ.get("FUSIONINFER_E2E_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "fusioninfer-pulumi" / "e2e"


def _picker(minor: str) -> Tool:
    module = "sigs.k8s.io/gateway-api-inference-extension"
    return Tool(
        name=f"epp-{minor}",
        source=module,
        programs={"epp": f"{module}/cmd/epp"},
        manifests={"crds": ("config/crd/bases/*.yaml",)},
    )


def _lws(minor: str, *, optional: bool = False) -> Tool:
    return Tool(
        name=f"lws-{minor}",
        source="sigs.k8s.io/lws",
        programs={"lws": "sigs.k8s.io/lws/cmd"},
        manifests={
            "crds": ("config/crd/bases/*.yaml",),
            "webhooks": ("config/webhook/manifests.yaml",),
        },
        optional=optional,
    )


def _control_plane(name: str, *, optional: bool = False) -> Tool:
    return Tool(
        name=name,
        source="k8s.io/kubernetes",
        programs={
            program: f"k8s.io/kubernetes/cmd/{program}"
            for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        },
        # Without this a build from the module says v0.0.0-master, which clients reject to parse.
        ldflags="-X k8s.io/component-base/version.gitVersion={version}",
        optional=optional,
    )


TOOLS: tuple[Tool, ...] = (
    Tool("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}),
    _control_plane("kubernetes"),
    _control_plane("kubernetes-1.37", optional=True),
    Tool(
        name="kubernetes-node",
        source="k8s.io/kubernetes",
        programs={name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy")},
        ldflags="-X k8s.io/component-base/version.gitVersion={version}",
        optional=True,
    ),
    Tool(
        name="coredns",
        source="github.com/coredns/coredns",
        # Our main package: its own has a hundred plugins.
        programs={"coredns": "fusioninfer-e2e/coredns"},
        optional=True,
    ),
    _lws("0.9"),
    _lws("0.8", optional=True),
    _lws("0.7", optional=True),
    Tool(
        name="volcano",
        source="volcano.sh/volcano",
        programs={"vc-scheduler": "volcano.sh/volcano/cmd/scheduler"},
        # What the scheduler watches. The other kinds are large and slow down the API server.
        manifests={
            "crds": (
                "config/crd/volcano/bases/scheduling.volcano.sh_*.yaml",
                "config/crd/volcano/bases/topology.volcano.sh_hypernodes.yaml",
                "config/crd/volcano/bases/nodeinfo.volcano.sh_numatopologies.yaml",
            )
        },
    ),
    Tool(
        name="kueue",
        source="sigs.k8s.io/kueue",
        programs={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
        manifests={
            "crds": ("config/components/crd/bases/*.yaml",),
            "webhooks": ("config/components/webhook/manifests.yaml",),
        },
        optional=True,
    ),
    Tool(
        name="kwok",
        source="sigs.k8s.io/kwok",
        programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        manifests={
            "stages": (
                "kustomize/stage/pod/fast/pod-*.yaml",
                "kustomize/stage/node/fast/node-initialize.yaml",
                "kustomize/stage/node/heartbeat/node-heartbeat.yaml",
            )
        },
    ),
    Tool(
        name="gateway-api",
        source="sigs.k8s.io/gateway-api",
        manifests={
            "crds": ("config/crd/standard/gateway.*.yaml",),
            "experimental": ("config/crd/experimental/gateway.networking.k8s.io_httproutes.yaml",),
        },
    ),
    Tool(
        name="prometheus-operator",
        source="github.com/prometheus-operator/prometheus-operator",
        # Its other kinds are large, and nothing of ours has them.
        manifests={
            "crds": (
                "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
                "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
                "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
            )
        },
    ),
    Tool(
        name="keda",
        source="github.com/kedacore/keda/v2",
        manifests={"crds": ("config/crd/bases/keda.sh_scaledobjects.yaml",)},
    ),
    Tool(
        name="keda-operator",
        source="github.com/kedacore/keda/v2",
        programs={
            name: f"github.com/kedacore/keda/v2/cmd/{name}" for name in ("operator", "adapter")
        },
        manifests={"crds": ("config/crd/bases/*.yaml",)},
        optional=True,
    ),
    _picker("1.2"),
    _picker("1.5"),
    Tool(
        name="envoy-gateway",
        source="github.com/envoyproxy/gateway",
        programs={"envoy-gateway": "github.com/envoyproxy/gateway/cmd/envoy-gateway"},
        manifests={
            "crds": tuple(
                f"charts/gateway-helm/crds/generated/gateway.envoyproxy.io_{kind}.yaml"
                for kind in ("backendtrafficpolicies", "clienttrafficpolicies", "securitypolicies")
            )
        },
        optional=True,
    ),
    Tool(
        name="istio",
        source="istio.io/api",
        manifests={"crds": ("kubernetes/customresourcedefinitions.gen.yaml",)},
        optional=True,
    ),
    Tool(
        name="agentgateway",
        # Not its own module, which is not available. kgateway 2.2 brings the CRDs, too.
        source="github.com/kgateway-dev/kgateway/v2",
        manifests={"crds": ("install/helm/agentgateway-crds/templates/*policies.yaml",)},
        optional=True,
    ),
    Tool(
        name="kube-network-policies",
        source="sigs.k8s.io/kube-network-policies",
        programs={"kube-network-policies": "sigs.k8s.io/kube-network-policies/cmd"},
        optional=True,
    ),
    Tool(
        name="pulumi",
        source="github.com/pulumi/pulumi/pkg/v3",
        programs={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
        ldflags="-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={version}",
        optional=True,
    ),
    Tool(
        name="pulumi-sdks",
        source="github.com/pulumi/pulumi/pkg/v3",
        # Our main package: `pulumi package gen-sdk` needs language hosts.
        programs={"pulumi-sdks": "fusioninfer-e2e/pulumi-sdks"},
    ),
    Tool(
        name="pulumi-yaml",
        source="github.com/pulumi/pulumi-yaml",
        programs={"pulumi-language-yaml": "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml"},
        optional=True,
    ),
)


def tool(name: str) -> Tool:
    """Return the tool of that name.

    Raises:
        KeyError: If there is none; the message lists the names.
    """
    for candidate in TOOLS:
        if candidate.name == name:
            return candidate
    raise KeyError(f"no tool {name!r}; there are {', '.join(t.name for t in TOOLS)}")


def program(tool_name: str, program_name: str) -> Path:
    """Path of a built program.

    Raises:
        FileNotFoundError: If its tool was not built; the message says how to build it.
    """
    found = tool(tool_name)
    if not found.is_built:
        raise FileNotFoundError(
            f"{program_name} is not built: run `python -m e2e.build_tools --only {tool_name}`"
        )
    return found.directory / "bin" / program_name


def manifests(tool_name: str, group: str) -> list[Path]:
    """Paths of the YAML files that a built tool brought along, sorted by name.

    Raises:
        FileNotFoundError: If the tool was not built; the message says how to build it.
    """
    found = tool(tool_name)
    if not found.is_built:
        raise FileNotFoundError(
            f"the {group} of {tool_name} are not there: "
            f"run `python -m e2e.build_tools --only {tool_name}`"
        )
    return sorted((found.directory / group).glob("*.yaml"))
