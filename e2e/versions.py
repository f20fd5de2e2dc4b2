"""Versions of the programs that no Go module of ours builds, as they say them."""

from __future__ import annotations

import importlib
import importlib.metadata
import shutil
import subprocess
from typing import Any

CLI = "Pulumi CLI and Python language host"
PROVIDER = "Pulumi Kubernetes provider"
PACKAGES = {
    "Pulumi SDK for Python": "pulumi",
    "Pulumi Kubernetes SDK for Python": "pulumi-kubernetes",
}
_SECONDS = 30


def found() -> dict[str, str]:
    """Asks what is here; what is not, and llm-d's programs, which do not say, are left out."""
    versions = {name: importlib.metadata.version(each) for name, each in PACKAGES.items()}
    cli = shutil.which("pulumi")
    if cli is not None:
        output = subprocess.run(
            [cli, "version"], capture_output=True, text=True, check=True, timeout=_SECONDS
        )
        versions[CLI] = output.stdout.strip().removeprefix("v")
    provider = shutil.which("pulumi-resource-kubernetes")
    if provider is not None:
        versions[PROVIDER] = _of_provider(provider)
    return versions


def _of_provider(program: str) -> str:
    """Asks it as the engine does: it has no flag for that."""
    grpc: Any = importlib.import_module("grpc")
    services: Any = importlib.import_module("pulumi.runtime.proto.provider_pb2_grpc")
    empty: Any = importlib.import_module("google.protobuf.empty_pb2")
    # The address is the engine's, which is not called for this.
    process = subprocess.Popen(
        [program, "127.0.0.1:1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = services.ResourceProviderStub(channel)
            output = stub.GetPluginInfo(empty.Empty(), timeout=_SECONDS)
            return str(output.version).removeprefix("v")
    finally:
        process.kill()
        process.communicate()
