"""The model cache: its claim, the Job that fills it, and the pods' mounts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.pods.test_model import HF, main, pod, serving
from tests.samples import container, kinds, rendered, role, service, template

WARM = {"storage": {"size": "100Gi"}, "warmUp": True}


def only(manifest: Any, kind: str) -> Any:
    (item,) = [entry for entry in rendered(manifest) if entry["kind"] == kind]
    return item


def cached(cache: dict[str, Any], uri: str = HF, **model: Any) -> Any:
    return serving({"uri": uri, "cache": cache, **model})


def test_job_fills_the_claim_before_lws_start() -> None:
    manifest = cached(WARM, tokenSecret={"name": "hub"})
    assert [kind.partition("/")[0] for kind in kinds(manifest)] == [
        "PersistentVolumeClaim", "Job", "LeaderWorkerSet", "Service",
    ]  # fmt: skip
    claim, job = only(manifest, "PersistentVolumeClaim"), only(manifest, "Job")
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "100Gi"}},
    }  # fmt: skip
    spec = job["spec"]["template"]["spec"]
    name = claim["metadata"]["name"]
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": name}
    assert spec["restartPolicy"] == "Never"
    source, folder = spec["containers"][0]["args"]
    assert source == HF
    # The pods mount the Job's files read-only.
    assert main(manifest)["args"][:2] == ["--model", folder]
    assert pod(manifest)["volumes"][0]["persistentVolumeClaim"] == {"claimName": name}
    assert main(manifest)["volumeMounts"][0]["readOnly"] is True
    assert "env" not in main(manifest)
    assert "initContainers" not in pod(manifest)


def test_changed_model_creates_another_job_and_folder() -> None:
    def parts(**model: Any) -> tuple[str, str, str]:
        manifest = cached(WARM, **{"uri": HF, **model})
        job = only(manifest, "Job")
        (container_made,) = job["spec"]["template"]["spec"]["containers"]
        claim = only(manifest, "PersistentVolumeClaim")["metadata"]["name"]
        return job["metadata"]["name"], container_made["args"][1], claim

    first, other = parts(), parts(uri=f"{HF}@v2")
    assert first[0] != other[0]
    assert first[1] != other[1]
    assert first[2] == other[2]
    # A different served name does not change the content.
    assert parts(name="other") == first


def test_changed_storage_creates_another_claim() -> None:
    def name(**storage: Any) -> str:
        manifest = cached({"storage": {"size": "1Gi", **storage}, "warmUp": True})
        return str(only(manifest, "PersistentVolumeClaim")["metadata"]["name"])

    assert name() == name(size="2Gi")  # it can grow
    assert len({name(), name(storageClassName="fast"), name(accessModes=["ReadWriteOnce"])}) == 3


def test_models_folder_may_be_mounted_at_a_path_of_the_command() -> None:
    user_template = template(container(args=["--model=/mnt/models"]))
    lora = {"adapters": [{"name": "a", "uri": "hf://x/y"}]}
    model = {"uri": HF, "cache": {**WARM, "mountModel": True}, "lora": lora}
    manifest = service(role(template=user_template), model=model)
    (job,) = only(manifest, "Job")["spec"]["template"]["spec"]["containers"]
    folders = [item.removeprefix("/mnt/model-cache/") for item in job["args"][1::2]]
    assert main(manifest)["volumeMounts"] == [
        {"name": "model-cache", "mountPath": path, "subPath": folder, "readOnly": True}
        for path, folder in zip(("/mnt/models", "/mnt/models-adapters/a"), folders, strict=True)
    ]
    assert main(manifest)["args"][0] == "--model=/mnt/models"
    assert "a=/mnt/models-adapters/a" in main(manifest)["args"]
    # Without `mountModel` the Job fills a different folder.
    (other,) = only(cached(WARM), "Job")["spec"]["template"]["spec"]["containers"]
    assert other["args"][1] not in job["args"]


def test_compile_cache_is_writable_with_read_only_model_files() -> None:
    manifest = cached({**WARM, "compileCache": True})
    assert main(manifest)["volumeMounts"] == [
        {"name": "model-cache", "mountPath": "/mnt/model-cache", "readOnly": True},
        {"name": "model-cache", "mountPath": "/mnt/model-cache-compiled", "subPath": "compiled"},
    ]
    assert main(manifest)["env"] == [
        {"name": "VLLM_CACHE_ROOT", "value": "/mnt/model-cache-compiled"}
    ]


def run(manifest: Any, root: Path, fetch: str) -> subprocess.CompletedProcess[str]:
    """Run the Job's script in a real shell, with its folders below `root`."""
    (made_container,) = only(manifest, "Job")["spec"]["template"]["spec"]["containers"]
    program = root / "fetch"
    program.write_text(f"#!/bin/sh\n{fetch}\n")
    program.chmod(0o755)
    shell, flag, script, name = made_container["command"]
    entry = "/storage-initializer/scripts/initializer-entrypoint"
    assert entry in script
    script = script.replace(entry, str(program))
    args = [item.replace("/mnt/model-cache", str(root)) for item in made_container["args"]]
    return subprocess.run(
        [shell, flag, script, name, *args], capture_output=True, text=True, timeout=30, check=False
    )


FETCH = 'mkdir -p "$2" && printf %s "$1" > "$2/files" && echo "$1" >> "$0.log"'


def test_script_fetches_each_source_once(tmp_path: Path) -> None:
    manifest = cached(WARM, lora={"adapters": [{"name": "a", "uri": "s3://b/k"}]})
    assert run(manifest, tmp_path, FETCH).returncode == 0
    folders = sorted(item.name for item in tmp_path.iterdir() if item.is_dir())
    assert len(folders) == 2
    assert not [folder for folder in folders if folder.endswith(".part")]
    assert (tmp_path / folders[0] / "files").read_text() == HF
    again = run(manifest, tmp_path, FETCH)
    assert again.stdout.count("is there already") == 2
    assert (tmp_path / "fetch.log").read_text().splitlines() == [HF, "s3://b/k"]


def test_failed_download_leaves_no_model_folder(tmp_path: Path) -> None:
    failing = 'mkdir -p "$2" && touch "$2/half" && exit 3'
    assert run(cached(WARM), tmp_path, failing).returncode == 3
    (left,) = [item.name for item in tmp_path.iterdir() if item.is_dir()]
    assert left.endswith(".part")
    assert run(cached(WARM), tmp_path, FETCH).returncode == 0
    (whole,) = [item for item in tmp_path.iterdir() if item.is_dir()]
    assert sorted(item.name for item in whole.iterdir()) == ["files"]


def test_mounted_folder_is_filled_in_place(tmp_path: Path) -> None:
    """The kubelet creates an empty folder if a pod mounts it before the Job runs."""
    manifest = cached({**WARM, "mountModel": True})
    failing = 'touch "$2/half" && exit 3'
    assert run(manifest, tmp_path, failing).returncode == 3
    (folder,) = [item for item in tmp_path.iterdir() if item.is_dir()]
    before = folder.stat().st_ino
    assert run(manifest, tmp_path, FETCH).returncode == 0
    assert (folder / "files").read_text() == HF
    assert folder.stat().st_ino == before  # mounted by pods
    assert "is complete already" in run(manifest, tmp_path, FETCH).stdout
    assert (tmp_path / "fetch.log").read_text().splitlines() == [HF]
