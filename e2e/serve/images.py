"""Generated images with the names in manifests.

An image contains only links and its configuration. The nodes mount the files from this machine into
all containers (`node.py`): /usr, the engines' environments and the built programs. So no registry
is needed, and pods need no changes.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.catalog import program
from e2e.harness.resources import Object
from e2e.serve.engine import NIXL_RELEASES, Environment, Models, Ray, Vllm, ray, vllm
from e2e.serve.hub import PORT
from e2e.serve.sandbox import ADDRESS

PAUSE = "registry.k8s.io/pause:3.10"

LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"}
"""Debian's links into the mounted /usr."""

ENGINE_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # Replicas share the CPUs.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # By default, CPU builds have a process per rank.
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "UCX_TLS": "tcp",  # NIXL's transport without RDMA.
    "HOME": "/tmp",
    "PYTHONDONTWRITEBYTECODE": "1",
}

MODELS = ("tiny", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-R1")
"""Names of the tiny model, including those in examples and pages."""

ADAPTERS = ("adapter", "example/qwen3-sql-lora", "example/support-7")
"""Names of its LoRA adapter."""

START_ARGUMENTS = {"vllm": "serve", "python3": "-m vllm.entrypoints.openai.api_server"}
"""Arguments that start an engine, by program."""

WRAPPER = """\
#!/bin/sh
case "$*" in
"{start}"*)
  case "$*" in
  *-parallel-size*|*--distributed-executor-backend*) ;;
  *) set -- "$@" --distributed-executor-backend uni ;;
  esac
  sleep "${{LOAD_SECONDS:-0}}"
  exec {program} "$@" --dtype float32 --enforce-eager ;;
*) exec {program} "$@" ;;
esac
"""
"""Starts an engine with additional arguments. bfloat16 needs instructions that not every CPU has,
and compiled graphs need a compiler. LOAD_SECONDS simulates the time to load weights. A single rank
needs no separate process, as on a GPU."""


@dataclass(frozen=True)
class Image:
    """Configuration and content of an image. Paths have no leading slash.

    Attributes:
        entrypoint: Command.
        environment: Environment variables.
        links: Targets of symbolic links, by path.
        scripts: Text of executable files, by path.
        files: Files of this machine to copy, by path.
        folder: Working directory.
        user: User and group.
    """

    entrypoint: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0"


class UnknownImageError(Exception):
    """No image can be generated for a name."""


def make_image(name: str) -> Image:
    """Return the generated image for a name.

    Raises:
        UnknownImageError: If the name is unknown or its program is not installed.
    """
    repository = name.partition("@")[0].rpartition(":")[0] or name
    tag = name.rpartition(":")[2]
    if repository.endswith(("/vllm-openai", "/vllm-openai-cpu")):
        return _make_engine_image(find_engine(tag))
    if repository.endswith("gateway-api-inference-extension/epp"):
        minor = ".".join(tag.removeprefix("v").split(".")[:2])
        return _make_program_image(str(program(f"epp-{minor}", "epp")))
    for ending, file in LLM_D.items():
        if repository.endswith(ending):
            return _make_program_image(find_program(f"{file}-0.9" if tag == "v0.9.0" else file))
    if repository.endswith("/vllm-ray") and ray().is_installed:
        return _make_engine_image(vllm(), ray())
    if repository.endswith("/storage-initializer"):
        return _make_fetcher_image(vllm())
    if repository == "python":
        return Image(["/usr/bin/python3"])
    if repository.endswith("/pause"):
        # Pause containers have no mounts.
        return Image(["/usr/bin/sleep", "infinity"], files=_find_libraries("/usr/bin/sleep"))
    raise UnknownImageError(f"unknown image {name}")


LLM_D = {
    "/llm-d-router-endpoint-picker": "llm-d-epp",
    "/llm-d-router-disagg-sidecar": "llm-d-sidecar",
}
"""End of a repository's name -> program on PATH; those of v0.9.0 end in `-0.9`."""


def find_engine(tag: str) -> Vllm:
    """Return the release of an image's tag if it is installed, else the one of most tests."""
    named = (vllm(release) for release in NIXL_RELEASES if tag.startswith(f"v{release}"))
    return next((engine for engine in named if engine.is_installed), vllm())


def find_program(file: str) -> str:
    path = shutil.which(file)
    if path is None:
        raise UnknownImageError(f"{file} is not on PATH")
    return path


def _make_program_image(path: str) -> Image:
    return Image([path], user="65532:65532")


def _find_libraries(path: str) -> dict[str, Path]:
    """Return a program and its shared libraries, by their paths in an image."""
    output = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"(/\S+) \(0x", output)
    files = {f"usr{library.removeprefix('/usr')}": Path(library) for library in libraries}
    return {path.removeprefix("/"): Path(path), **files}


def _make_engine_image(engine: Vllm, ray_environment: Ray | None = None) -> Image:
    binaries = f"{engine.directory}/bin"
    path = f"/opt/engine:{binaries}:/usr/local/bin:/usr/bin:/bin"
    python_path = {}
    if ray_environment is not None:
        python_path = {"PYTHONPATH": str(ray_environment.packages)}
        path = f"{path}:{ray_environment.packages}/bin"
    return Image(
        # As in the published images of the release.
        entrypoint=["vllm", "serve"],
        environment={**ENGINE_ENVIRONMENT, **python_path, "PATH": path},
        scripts={
            f"opt/engine/{name}": WRAPPER.format(program=f"{binaries}/{name}", start=start)
            for name, start in START_ARGUMENTS.items()
        },
        # vLLM checks first whether a model name is a folder.
        links={f"models/{name}": str(Models().model) for name in MODELS}
        | {f"models/{name}": str(Models().adapter) for name in ADAPTERS},
        folder="/models",
    )


FETCHER = """\
#!{python}
import sys
from huggingface_hub import snapshot_download
source, folder = sys.argv[-2:]
snapshot_download(source.removeprefix("hf://"), local_dir=folder)
"""
"""Replaces KServe's storage-initializer, which calls the same function for `hf://`."""


def _make_fetcher_image(engine: Vllm) -> Image:
    path = "storage-initializer/scripts/initializer-entrypoint"
    return Image(
        [f"/{path}"],
        environment={
            "HOME": "/tmp",
            "PATH": "/usr/bin:/bin",
            "HF_ENDPOINT": f"http://{ADDRESS}:{PORT}",
        },
        scripts={path: FETCHER.format(python=engine.python)},
        user="1000",
    )


def list_mounts(environments: Iterable[Environment]) -> list[Path]:
    """Return folders of this machine that are mounted into all containers."""
    folders = [Path("/usr"), Models().directory, ray().directory]
    for environment in environments:
        folders += [environment.directory, environment.base]
    folders += [program(f"epp-{minor}", "epp").parent for minor in ("1.2", "1.5")]
    folders += [Path(path).parent for file in set(LLM_D.values()) if (path := shutil.which(file))]
    return sorted({folder for folder in folders if folder.is_dir()})


def find_containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("containers", "initContainers") and isinstance(inner, list):
                yield from inner
            yield from find_containers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_containers(inner)


def list_images(manifests: Iterable[Object]) -> set[str]:
    all_containers = find_containers(list(manifests))
    return {item["image"] for item in all_containers if isinstance(item, dict) and "image" in item}


def write_archive(path: Path, images: Mapping[str, Image]) -> Path:
    """Write images to an OCI archive for `ctr images import`; return its path."""
    blobs: dict[str, bytes] = {}

    def add_blob(data: bytes, kind: str) -> Object:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    manifests = []
    for name, image in images.items():
        layer = _make_layer(image)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": list(image.entrypoint),
                "Env": [f"{key}={value}" for key, value in image.environment.items()],
                "WorkingDir": image.folder,
                "User": image.user,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_hash(layer)}"]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": add_blob(json.dumps(config).encode(), "config.v1+json"),
            "layers": [add_blob(layer, "layer.v1.tar")],
        }
        entry = add_blob(json.dumps(manifest).encode(), "manifest.v1+json")
        manifests.append({**entry, "annotations": {"io.containerd.image.name": add_registry(name)}})
    index = {"schemaVersion": 2, "manifests": manifests}
    with tarfile.open(path, "w") as archive:
        _add_file(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add_file(archive, "index.json", json.dumps(index).encode())
        for digest, data in blobs.items():
            _add_file(archive, f"blobs/sha256/{digest}", data)
    return path


def add_registry(name: str) -> str:
    """Return an image's name with its registry, Docker Hub by default."""
    first, _, rest = name.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if rest else f"docker.io/library/{name}"


def _make_layer(image: Image) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for folder, mode in (("tmp", 0o1777), ("etc", 0o755), ("root", 0o755)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            archive.addfile(entry)
        for path, target in {**LINKS, **image.links}.items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
        _add_file(archive, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        for path, text in image.scripts.items():
            _add_file(archive, path, text.encode(), mode=0o755)
        for path, source in image.files.items():
            _add_file(archive, path, source.read_bytes(), mode=0o755)
    return stream.getvalue()


def _add_file(archive: tarfile.TarFile, path: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
