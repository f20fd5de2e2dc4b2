"""A release of vLLM on loopback, without a pod, with the tiny model and its adapter."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import urllib3

from e2e.harness.processes import free_ports
from e2e.serve.engine import MAKER, Vllm

START = 300.0

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
}


@contextmanager
def serving(engine: Vllm) -> Iterator[str]:
    """Run `vllm serve`; yield its address once it answers.

    The model is made with the engine's own libraries: others write files that it cannot read.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder, log = Path(scratch), Path(scratch) / "log"
        model, adapter = folder / "tiny", folder / "adapter"
        subprocess.run([str(engine.python), "-P", str(MAKER), str(model), str(adapter)], check=True)
        (port,) = free_ports(1)
        command = [str(engine.python.with_name("vllm")), "serve", str(model), "--port", str(port)]
        command += ["--host", "127.0.0.1", "--served-model-name", "tiny", "--dtype", "float32"]
        command += ["--enforce-eager", "--max-model-len", "2048", "--enable-lora"]
        command += ["--max-lora-rank", "8", "--lora-modules", f"adapter={adapter}"]
        variables = {**os.environ, **ENVIRONMENT, "VLLM_CACHE_ROOT": str(folder / "cache")}
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=variables)
        try:
            address = f"http://127.0.0.1:{port}"
            _await(process, address, log)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if urllib3.request("GET", f"{address}/health", timeout=2, retries=False).status == 200:
                return
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"vLLM does not serve:\n{log.read_text(errors='replace')[-3000:]}")
