"""The model that a service serves: where its files come from, and how they get into the pods."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    Count,
    Duration,
    NameOrOutput,
    PodPart,
    PositiveCount,
    StringOrOutput,
    Text,
    TextOrOutput,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

FETCHER_IMAGE: str
FETCHER_USER: int
AbsolutePath = str
RelativePath = str

class Fetch(str, enum.Enum):
    """The component that downloads a model's files into a pod."""

    ENGINE = "Engine"
    INIT_CONTAINER = "InitContainer"

class AccessMode(str, enum.Enum):
    """Kubernetes' access modes of a volume."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"

class SecretKeyArgs(SpecModel):
    """One key of a Secret in the service's namespace."""

    def __init__(self, **fields: Unpack[dicts.SecretKeyArgsDict]) -> None: ...
    name: NameOrOutput
    "Name of the Secret; may be an Output."
    key: Text
    "Key that holds the value."

class S3Args(SpecModel):
    """Access to an S3 bucket."""

    def __init__(self, **fields: Unpack[dicts.S3ArgsDict]) -> None: ...
    secret_name: NameOrOutput | None
    "Secret with the credentials; without one the pod's identity is used. May be an Output."
    access_key_id_key: Text
    "Key of the Secret that holds the access key's id."
    secret_access_key_key: Text
    "Key of the Secret that holds the secret access key."
    endpoint: TextOrOutput | None
    "URL of a store other than AWS; may be an Output."
    region: TextOrOutput | None
    "Region of the bucket; may be an Output."

class LoraAdapterArgs(SpecModel):
    """One LoRA adapter."""

    def __init__(self, **fields: Unpack[dicts.LoraAdapterArgsDict]) -> None: ...
    name: Text
    "Name by which requests ask for it."
    uri: Text
    "Where it comes from, in the forms of the model's `uri`."

class LoraArgs(SpecModel):
    """LoRA adapters that are served beside the model."""

    def __init__(self, **fields: Unpack[dicts.LoraArgsDict]) -> None: ...
    adapters: list[LoraAdapterArgs]
    "The adapters."
    max_rank: PositiveCount | None
    "Largest rank of an adapter, by default the engine's."
    max_adapters: PositiveCount | None
    "Adapters in one batch, by default the engine's."
    max_cpu_adapters: PositiveCount | None
    "Adapters that are kept in memory, by default the engine's."

class FetcherArgs(SpecModel):
    """The container that fetches models: of the warm-up Job, or before the engine of each pod."""

    def __init__(self, **fields: Unpack[dicts.FetcherArgsDict]) -> None: ...
    image: StringOrOutput
    "Its image, by default KServe's storage-initializer; may be an Output."
    command: list[str]
    "What fetches: it gets a source and a folder as its last two arguments."
    env: list[PodPart]
    "More variables, such as proxies or mirrors."
    resources: PodPart | None
    "Its resources, in place of the default requests (100m CPU, 512Mi memory)."
    security_context: PodPart | None
    "Its security context, in place of an unprivileged one of user 1000."

class StorageArgs(SpecModel):
    """A PersistentVolumeClaim of the service's own."""

    def __init__(self, **fields: Unpack[dicts.StorageArgsDict]) -> None: ...
    size: Bytes
    "Its size, such as `500Gi`."
    storage_class_name: NameOrOutput | None
    "StorageClass, by default the cluster's; may be an Output."
    access_modes: list[AccessMode]
    "Access modes, by default `ReadWriteMany`; others would have to change, and the claim with\n    them, when the service grows."

class WarmUpJobArgs(SpecModel):
    """The pod that fills the cache."""

    def __init__(self, **fields: Unpack[dicts.WarmUpJobArgsDict]) -> None: ...
    timeout: Duration
    "How long it may take, all attempts together."
    backoff_limit: Count
    "Attempts after the first."
    ttl_seconds_after_finished: Count | None
    "Seconds after which the cluster deletes it; by default it stays, as Pulumi would create a\n    deleted one again."
    node_selector: dict[str, StringOrOutput] | None
    "Nodes on which it may run; values may be Outputs."
    tolerations: list[PodPart] | None
    "Taints that it tolerates."
    service_account_name: NameOrOutput | None
    "Its ServiceAccount, by default the namespace's; it gets no token. May be an Output."

class CacheArgs(SpecModel):
    """A volume that keeps model files for all pods of the service."""

    def __init__(self, **fields: Unpack[dicts.CacheArgsDict]) -> None: ...
    claim_name: NameOrOutput | None
    "An existing PersistentVolumeClaim; exclusive with `storage`. May be an Output."
    storage: StorageArgs | None
    "A claim that the service creates."
    mount_path: AbsolutePath
    "Where it is mounted."
    warm_up: bool
    "Whether a Job fills it before the pods are made, which then only read it. Without it,\n    engines download into it."
    mount_model: bool
    "Mounts the model's own folder of the volume at `model.mountPath`, and each adapter's at\n    `{mountPath}-adapters/NAME`, in place of the whole volume at `mountPath`: for commands that name\n    such a path. Needs `warmUp`."
    read_only: bool
    "Whether pods mount read-only what the Job wrote; `false` is for engines that write beside the\n    model's files. Needs `warmUp`."
    job: WarmUpJobArgs
    "The Job."

class ModelArgs(SpecModel):
    """The model: its files get into every serving pod, and the engine's arguments name it."""

    def __init__(self, **fields: Unpack[dicts.ModelArgsDict]) -> None: ...
    uri: Text
    "`hf://ORG/NAME[@REVISION]`, `pvc://CLAIM[/PATH]`, `s3://BUCKET/KEY` or `oci://IMAGE`."
    name: Text | None
    "Name by which requests ask for it; by default the repository's for `hf://`, else the\n    service's."
    size: Bytes | None
    "Size of its files, such as `140Gi`."
    config: dict[str, Any] | Text | None
    "Its `config.json`, or a path of that, for checks of the memory; by default that of the table\n    of known models. A path is relative to the manifest's folder, and in or below it; in a program\n    relative to the working directory."
    mount_path: AbsolutePath
    "Where its files are, but for those in a cache without `mountModel`."
    path: RelativePath | None
    "`oci://` only: folder of the image that holds the model, such as `models`."
    fetch: Fetch | None
    "`hf://` only: who fetches it, by default the engine."
    fetcher: FetcherArgs
    "The container that fetches, where the engine does not."
    token_secret: SecretKeyArgs | None
    "Secret with the token for Hugging Face."
    s3: S3Args
    "How `s3://` is reached."
    image_pull_secrets: list[NameOrOutput]
    "Secrets for pulling `oci://` and the fetcher's image; each may be an Output."
    lora: LoraArgs | None
    "LoRA adapters."
    cache: CacheArgs | None
    "A volume that keeps the files."

URI_FORMATS: str

@dataclass(frozen=True)
class ModelSource:
    """A model's `uri`, parsed.

    Attributes:
        scheme: `hf`, `pvc`, `s3` or `oci`.
        place: The repository, claim, bucket with its key, or image.
        path: Path inside of the claim, without slashes at its ends; else empty.
        revision: Revision of the repository, None for its main branch.
    """

    scheme: str
    place: str
    path: str
    revision: str | None

    @property
    def fetched(self) -> str: ...

def parse_model_uri(uri: str) -> ModelSource | None: ...
def hub_name(uri: str) -> str | None: ...
