"""The model that a service serves: its source, download and cache."""

import enum
from typing import Any, NamedTuple

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    Count,
    Duration,
    ImageOrOutput,
    ObjectNameOrOutput,
    PodPart,
    PositiveCount,
    Resources,
    StringOrOutput,
    Text,
    TextOrOutput,
    WebAddressOrOutput,
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
    """Access mode of a PersistentVolumeClaim."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"

class SecretKeyArgs(SpecModel):
    """A key of a Secret in the service's namespace."""

    def __init__(self, **fields: Unpack[dicts.SecretKeyArgsDict]) -> None: ...
    name: ObjectNameOrOutput
    "Name of the Secret; may be an Output."
    key: Text
    "Key that holds the value."

class S3Args(SpecModel):
    """Access to an S3 bucket."""

    def __init__(self, **fields: Unpack[dicts.S3ArgsDict]) -> None: ...
    secret_name: ObjectNameOrOutput | None
    "Secret with the credentials; by default the pod's identity is used. May be an Output."
    access_key_id_key: Text
    "Key of the Secret that holds the access key ID."
    secret_access_key_key: Text
    "Key of the Secret that holds the secret access key."
    endpoint: WebAddressOrOutput | None
    "URL of an S3-compatible store other than AWS; may be an Output."
    region: TextOrOutput | None
    "Region of the bucket; may be an Output."

ModelUri = Text

class LoraAdapterArgs(SpecModel):
    """A LoRA adapter."""

    def __init__(self, **fields: Unpack[dicts.LoraAdapterArgsDict]) -> None: ...
    name: str
    "Adapter name in requests."
    uri: ModelUri
    "Source of the adapter, in the formats of the model's `uri`."

class LoraArgs(SpecModel):
    """LoRA adapters that are served with the model."""

    def __init__(self, **fields: Unpack[dicts.LoraArgsDict]) -> None: ...
    adapters: list[LoraAdapterArgs]
    "The adapters."
    max_rank: PositiveCount | None
    "Maximum rank of the adapters; the engine's default if not set."
    max_adapters: PositiveCount | None
    "Maximum number of adapters in one batch; the engine's default if not set."
    max_cpu_adapters: PositiveCount | None
    "Maximum number of adapters in host memory; the engine's default if not set."

class FetcherArgs(SpecModel):
    """The container that downloads models, in the warm-up Job or as an init container."""

    def __init__(self, **fields: Unpack[dicts.FetcherArgsDict]) -> None: ...
    image: ImageOrOutput
    "Image; KServe's storage-initializer by default. May be an Output."
    command: list[str]
    "Command; the source and the target directory are appended as arguments."
    env: list[PodPart]
    "Additional environment variables, such as proxies or mirrors."
    resources: Resources | None
    "Resources, replacing the default requests (100m CPU, 512Mi memory)."
    security_context: PodPart | None
    "Security context, replacing the default: unprivileged, user 1000."

class StorageArgs(SpecModel):
    """A PersistentVolumeClaim that the service creates."""

    def __init__(self, **fields: Unpack[dicts.StorageArgsDict]) -> None: ...
    size: Bytes
    "Storage request, such as `500Gi`."
    storage_class_name: ObjectNameOrOutput | None
    "StorageClass; the cluster's default if not set. May be an Output."
    access_modes: list[AccessMode]
    "Access modes; `ReadWriteMany` by default. With `ReadWriteOnce` all pods run on one node. If\n    the modes change, another claim is created, and the model is downloaded again."

class WarmUpJobArgs(SpecModel):
    """The Job that fills the cache."""

    def __init__(self, **fields: Unpack[dicts.WarmUpJobArgsDict]) -> None: ...
    timeout: Duration
    "Timeout for all attempts together, such as `2h`."
    backoff_limit: Count
    "Number of retries."
    ttl_seconds_after_finished: Count | None
    "Seconds after which Kubernetes deletes the finished Job. By default it is kept, because\n    Pulumi would create a deleted Job again."
    node_selector: dict[str, StringOrOutput] | None
    "Node selector; values may be Outputs."
    tolerations: list[PodPart] | None
    "Tolerations."
    service_account_name: ObjectNameOrOutput | None
    "ServiceAccount; the namespace's default if not set. Its token is not mounted. May be an\n    Output."

class CacheArgs(SpecModel):
    """A volume that caches model files for all pods of the service."""

    def __init__(self, **fields: Unpack[dicts.CacheArgsDict]) -> None: ...
    claim_name: ObjectNameOrOutput | None
    "Name of an existing PersistentVolumeClaim; mutually exclusive with `storage`. May be an\n    Output."
    storage: StorageArgs | None
    "A claim that the service creates."
    mount_path: AbsolutePath
    "Mount path of the volume."
    warm_up: bool
    "Whether a Job downloads the model before the pods are created. The pods then mount the cache\n    read-only, unless `readOnly` is false. Without a warm-up the engines download into the cache."
    mount_model: bool
    "Whether to mount the model's directory at `model.mountPath`, and each adapter's at\n    `{model.mountPath}-adapters/NAME`, for commands that contain these paths. Otherwise the whole\n    volume is mounted at `model.cache.mountPath`. Requires `warmUp`."
    read_only: bool
    "Whether pods mount the downloaded files read-only; `false` if the engine writes next to the\n    model files. Requires `warmUp`."
    job: WarmUpJobArgs
    "The warm-up Job."
    compile_cache: bool
    "Whether vLLM keeps compiled kernels in the volume, in the directory `compiled`, so that later\n    pods of the same release, model and GPU type start without compiling. Pods write to it even with\n    `readOnly`. Pods with `kvTransfer` reuse it only with vLLM 0.28 or later."

class ModelArgs(SpecModel):
    """The model: mounted or downloaded in every serving pod, and passed to the engine."""

    def __init__(self, **fields: Unpack[dicts.ModelArgsDict]) -> None: ...
    uri: ModelUri
    "`hf://ORG/NAME[@REVISION]`, `pvc://CLAIM[/PATH]`, `s3://BUCKET/KEY` or `oci://IMAGE`."
    name: Text | None
    "Model name in requests. Default: the repository name for `hf://`, else the service's name."
    size: Bytes | None
    "Size of the model files, such as `140Gi`."
    config: dict[str, Any] | Text | None
    "The model's `config.json`, or its path, for memory checks. Default: the table of known\n    models. In a manifest the path is relative to the manifest's directory and must not leave it; in\n    a program it is relative to the working directory."
    mount_path: AbsolutePath
    "Path of the model files in the pods, unless the engine downloads them. With `cache.warmUp`\n    the model has this path only if `cache.mountModel` is set."
    path: RelativePath | None
    "`oci://` only: directory in the image that contains the model, such as `models`."
    fetch: Fetch | None
    "`hf://` only: the component that downloads the model; the engine by default."
    fetcher: FetcherArgs
    "The container that downloads the model, if the engine does not."
    token_secret: SecretKeyArgs | None
    "Secret with the Hugging Face token."
    s3: S3Args
    "Access to `s3://` buckets."
    image_pull_secrets: list[ObjectNameOrOutput]
    "Secrets for pulling `oci://` models and the fetcher's image; each may be an Output."
    lora: LoraArgs | None
    "LoRA adapters."
    cache: CacheArgs | None
    "A volume that caches the model files."

URI_FORMATS: str

class ModelSource(NamedTuple):
    """A model's `uri`, parsed.

    Attributes:
        scheme: `hf`, `pvc`, `s3` or `oci`.
        target: The repository, claim, bucket with key, or image.
        path: Path in the claim, without slashes at its ends; empty if the scheme is not `pvc`.
        revision: Revision of the repository, or None for its main branch. None if the scheme is
            not `hf`.
    """

    scheme: str
    target: str
    path: str
    revision: str | None

    @property
    def fetch_uri(self) -> str: ...

def parse_model_uri(uri: str) -> ModelSource | None: ...
def hub_name(uri: str) -> str | None: ...
