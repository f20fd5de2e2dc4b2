"""The model that a service serves: where its files come from, and how they get into the pods."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    Count,
    NameOrOutput,
    PodPart,
    PositiveCount,
    StringOrOutput,
    Text,
    TextOrOutput,
    fits,
)
from fusioninfer_pulumi.api.spec_model import SpecModel, default
from fusioninfer_pulumi.api.validation_errors import string_format
from fusioninfer_pulumi.findings import Finding, Location, Rule
from fusioninfer_pulumi.generated import dicts
from fusioninfer_pulumi.schemas.kind_schema import TOLERATIONS

INVALID_MODEL_URI = Rule("invalid-model-uri")
FETCHER_IMAGE = "kserve/storage-initializer:v0.20.0"
FETCHER_COMMAND = ("/storage-initializer/scripts/initializer-entrypoint",)
FETCHER_USER = 1000
AbsolutePath = Annotated[
    str,
    string_format(
        "^(/[A-Za-z0-9_.-]+)+$", "a path such as /models/chat, of A-Z a-z 0-9 _ . - and /"
    ),
]
RelativePath = Annotated[
    str,
    string_format(
        "^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$",
        "a path such as models/chat without a / before it, of A-Z a-z 0-9 _ . - and /",
    ),
]

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
    key: Text = "HF_TOKEN"
    "Key that holds the value."

class S3Args(SpecModel):
    """Access to an S3 bucket."""

    def __init__(self, **fields: Unpack[dicts.S3ArgsDict]) -> None: ...
    secret_name: NameOrOutput | None = None
    "Secret with the credentials; without one the pod's identity is used. May be an Output."
    access_key_id_key: Text = "AWS_ACCESS_KEY_ID"
    "Key of the Secret that holds the access key's id."
    secret_access_key_key: Text = "AWS_SECRET_ACCESS_KEY"
    "Key of the Secret that holds the secret access key."
    endpoint: TextOrOutput | None = None
    "URL of a store other than AWS; may be an Output."
    region: TextOrOutput | None = None
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
    adapters: list[LoraAdapterArgs] = Field(min_length=1)
    "The adapters."
    max_rank: PositiveCount | None = None
    "Largest rank of an adapter, by default the engine's."
    max_adapters: PositiveCount | None = None
    "Adapters in one batch, by default the engine's."
    max_cpu_adapters: PositiveCount | None = None
    "Adapters that are kept in memory, by default the engine's."

class FetcherArgs(SpecModel):
    """The container that fetches models: of the warm-up Job, or before the engine of each pod."""

    def __init__(self, **fields: Unpack[dicts.FetcherArgsDict]) -> None: ...
    image: StringOrOutput = FETCHER_IMAGE
    "Its image, by default KServe's storage-initializer; may be an Output."
    command: list[str] = Field(default=list(FETCHER_COMMAND), min_length=1)
    "What fetches: it gets a source and a folder as its last two arguments."
    env: list[PodPart] = Field(default_factory=list)
    "More variables, such as proxies or mirrors."
    resources: PodPart | None = None
    "Its resources, in place of the default requests (100m CPU, 512Mi memory)."
    security_context: PodPart | None = None
    "Its security context, in place of an unprivileged one of user 1000."

class StorageArgs(SpecModel):
    """A PersistentVolumeClaim of the service's own."""

    def __init__(self, **fields: Unpack[dicts.StorageArgsDict]) -> None: ...
    size: Bytes
    "Its size, such as `500Gi`."
    storage_class_name: NameOrOutput | None = None
    "StorageClass, by default the cluster's; may be an Output."
    access_modes: list[Annotated[AccessMode, Field(strict=False)]] = Field(
        default=[AccessMode.READ_WRITE_MANY], min_length=1
    )
    "Access modes, by default `ReadWriteMany`; others would have to change, and the claim with\n    them, when the service grows."

class WarmUpJobArgs(SpecModel):
    """The pod that fills the cache."""

    def __init__(self, **fields: Unpack[dicts.WarmUpJobArgsDict]) -> None: ...
    timeout: Text = "2h"
    "How long it may take, all attempts together."
    backoff_limit: Count = 3
    "Attempts after the first."
    ttl_seconds_after_finished: Count | None = None
    "Seconds after which the cluster deletes it; by default it stays, as Pulumi would create a\n    deleted one again."
    node_selector: dict[str, StringOrOutput] | None = None
    "Nodes on which it may run; values may be Outputs."
    tolerations: Annotated[list[PodPart], fits(TOLERATIONS)] | None = None
    "Taints that it tolerates."
    service_account_name: NameOrOutput | None = None
    "Its ServiceAccount, by default the namespace's; it gets no token. May be an Output."

class CacheArgs(SpecModel):
    """A volume that keeps model files for all pods of the service."""

    def __init__(self, **fields: Unpack[dicts.CacheArgsDict]) -> None: ...
    claim_name: NameOrOutput | None = None
    "An existing PersistentVolumeClaim; exclusive with `storage`. May be an Output."
    storage: StorageArgs | None = None
    "A claim that the service creates."
    mount_path: AbsolutePath = "/mnt/model-cache"
    "Where it is mounted."
    warm_up: bool = False
    "Whether a Job fills it before the pods are made, which then only read it. Without it,\n    engines download into it."
    mount_model: bool = False
    "Mounts the model's own folder of the volume at `model.mountPath`, and each adapter's at\n    `{mountPath}-adapters/NAME`, in place of the whole volume at `mountPath`: for commands that name\n    such a path. Needs `warmUp`."
    read_only: bool = True
    "Whether pods mount read-only what the Job wrote; `false` is for engines that write beside the\n    model's files. Needs `warmUp`."
    job: WarmUpJobArgs = default(WarmUpJobArgs)
    "The Job."

class ModelArgs(SpecModel):
    """The model: its files get into every serving pod, and the engine's arguments name it."""

    def __init__(self, **fields: Unpack[dicts.ModelArgsDict]) -> None: ...
    uri: Text
    "`hf://ORG/NAME[@REVISION]`, `pvc://CLAIM[/PATH]`, `s3://BUCKET/KEY` or `oci://IMAGE`."
    name: Text | None = None
    "Name by which requests ask for it; by default the repository's for `hf://`, else the\n    service's."
    size: Bytes | None = None
    "Size of its files, such as `140Gi`."
    config: dict[str, Any] | Text | None = None
    "Its `config.json`, or a path of that, for checks of the memory; by default that of the table\n    of known models. A path is relative to the manifest's folder, and in or below it; in a program\n    relative to the working directory."
    mount_path: AbsolutePath = "/mnt/models"
    "Where its files are, but for those in a cache without `mountModel`."
    path: RelativePath | None = None
    "`oci://` only: folder of the image that holds the model, such as `models`."
    fetch: Annotated[Fetch, Field(strict=False)] | None = None
    "`hf://` only: who fetches it, by default the engine."
    fetcher: FetcherArgs = default(FetcherArgs)
    "The container that fetches, where the engine does not."
    token_secret: SecretKeyArgs | None = None
    "Secret with the token for Hugging Face."
    s3: S3Args = default(S3Args)
    "How `s3://` is reached."
    image_pull_secrets: list[NameOrOutput] = Field(default_factory=list)
    "Secrets for pulling `oci://` and the fetcher's image; each may be an Output."
    lora: LoraArgs | None = None
    "LoRA adapters."
    cache: CacheArgs | None = None
    "A volume that keeps the files."

URI_FORMATS = "hf://ORG/NAME[@REVISION], pvc://CLAIM[/PATH], s3://BUCKET/KEY or oci://IMAGE"
_PART = "(?![\\w.-]*(?:--|\\.\\.|\\.git(?![\\w.-])))\\w(?:[\\w.-]*\\w)?"
_REPO = re.compile(f"({_PART}(?:/{_PART})?)(?:[@:]([\\w./-]+))?", re.ASCII)
_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_CLAIM = re.compile(f"({_LABEL}(?:\\.{_LABEL})*)(?:/(.*))?")
_BUCKET = re.compile(f"(?=[^/]{{1,63}}/)({_LABEL}(?:\\.{_LABEL})*)/([^/\\s]\\S*)")
_PATH = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    f"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?{_PATH}(?:/{_PATH})*(?::\\w[\\w.-]{{0,127}})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)
_URL = re.compile("https?://[^/\\s]+\\S*")

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
    path: str = ""
    revision: str | None = None

    @property
    def fetched(self) -> str: ...

def parse_model_uri(uri: str) -> ModelSource | None: ...
def hub_name(uri: str) -> str | None: ...
def model_findings(at: Location, model: ModelArgs) -> Iterator[Finding]: ...

_SCHEMES = {"path": "oci", "fetch": "hf", "token_secret": "hf", "s3": "s3"}

def _misplaced_fields(at: Location, model: ModelArgs, source: ModelSource) -> Iterator[Finding]: ...
def _lora(at: Location, model: ModelArgs) -> Iterator[Finding]: ...
def _fetcher(at: Location, model: ModelArgs) -> Iterator[Finding]: ...
def _cache(
    at: Location, model: ModelArgs, cache: CacheArgs, source: ModelSource | None
) -> Iterator[Finding]: ...
