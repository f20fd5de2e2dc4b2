"""The model that a service serves: its source, download and cache."""

import enum
import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from fusioninfer_pulumi.api.field_rules import (
    FieldRule,
    check_fields,
    inapplicable_rule,
    no_effect_rule,
    required_rule,
)
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
    matches_schema,
)
from fusioninfer_pulumi.api.spec_model import SpecModel, default, empty_list
from fusioninfer_pulumi.api.validation_errors import rule_error, string_format
from fusioninfer_pulumi.findings import Finding, Location, Rule, Severity, quote_value
from fusioninfer_pulumi.schemas.kind_schema import CONTAINER, TOLERATIONS

INVALID_MODEL_URI = Rule("invalid-model-uri")

#: Image that downloads models by default; the tag is KServe's release.
FETCHER_IMAGE = "kserve/storage-initializer:v0.20.0"
#: The image's entrypoint (KServe's `python/storage-initializer.Dockerfile`), without arguments.
FETCHER_COMMAND = ("/storage-initializer/scripts/initializer-entrypoint",)
FETCHER_USER = 1000

AbsolutePath = Annotated[
    str,
    string_format(
        r"^(/[A-Za-z0-9_.-]+)+$", "a path such as /models/chat, of A-Z a-z 0-9 _ . - and /"
    ),
]
RelativePath = Annotated[
    str,
    string_format(
        r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$",
        "a path such as models/chat without a / before it, of A-Z a-z 0-9 _ . - and /",
    ),
]


class Fetch(str, enum.Enum):
    """The component that downloads a model's files into a pod."""

    ENGINE = "Engine"  #: the engine downloads it from Hugging Face when it starts
    INIT_CONTAINER = "InitContainer"  #: an init container downloads it before the engine starts


class AccessMode(str, enum.Enum):
    """Access mode of a PersistentVolumeClaim."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class SecretKeyArgs(SpecModel):
    """A key of a Secret in the service's namespace."""

    name: ObjectNameOrOutput
    """Name of the Secret; may be an Output."""

    key: Text = "HF_TOKEN"
    """Key that holds the value."""


class S3Args(SpecModel):
    """Access to an S3 bucket."""

    secret_name: ObjectNameOrOutput | None = None
    """Secret with the credentials; by default the pod's identity is used. May be an Output."""

    access_key_id_key: Text = "AWS_ACCESS_KEY_ID"
    """Key of the Secret that holds the access key ID."""

    secret_access_key_key: Text = "AWS_SECRET_ACCESS_KEY"  # noqa: S105  # the name of a key
    """Key of the Secret that holds the secret access key."""

    endpoint: WebAddressOrOutput | None = None
    """URL of an S3-compatible store other than AWS; may be an Output."""

    region: TextOrOutput | None = None
    """Region of the bucket; may be an Output."""


def _validate_model_uri(uri: str) -> str:
    if parse_model_uri(uri) is None:
        raise rule_error(INVALID_MODEL_URI, f"must be {URI_FORMATS}, got {quote_value(uri)}")
    return uri


#: A source of model files.
ModelUri = Annotated[Text, AfterValidator(_validate_model_uri)]


class LoraAdapterArgs(SpecModel):
    """A LoRA adapter."""

    # The engine's argument is NAME=PATH.
    name: Annotated[str, string_format(r"^[^=]+$", "a name without =")]
    """Adapter name in requests."""

    uri: ModelUri
    """Source of the adapter, in the formats of the model's `uri`."""


class LoraArgs(SpecModel):
    """LoRA adapters that are served with the model."""

    adapters: list[LoraAdapterArgs] = Field(min_length=1)
    """The adapters."""

    max_rank: PositiveCount | None = None
    """Maximum rank of the adapters; the engine's default if not set."""

    max_adapters: PositiveCount | None = None
    """Maximum number of adapters in one batch; the engine's default if not set."""

    max_cpu_adapters: PositiveCount | None = None
    """Maximum number of adapters in host memory; the engine's default if not set."""

    UNIQUE = (("adapters", "name"),)


class FetcherArgs(SpecModel):
    """The container that downloads models, in the warm-up Job or as an init container."""

    image: ImageOrOutput = FETCHER_IMAGE
    """Image; KServe's storage-initializer by default. May be an Output."""

    command: list[str] = Field(default=list(FETCHER_COMMAND), min_length=1)
    """Command; the source and the target directory are appended as arguments."""

    env: Annotated[list[PodPart], matches_schema(CONTAINER.below("env"), outputs=True)] = Field(
        default_factory=empty_list
    )
    """Additional environment variables, such as proxies or mirrors."""

    resources: Resources | None = None
    """Resources, replacing the default requests (100m CPU, 512Mi memory)."""

    security_context: (
        Annotated[PodPart, matches_schema(CONTAINER.below("securityContext"), outputs=True)] | None
    ) = None
    """Security context, replacing the default: unprivileged, user 1000."""


class StorageArgs(SpecModel):
    """A PersistentVolumeClaim that the service creates."""

    size: Bytes
    """Storage request, such as `500Gi`."""

    storage_class_name: ObjectNameOrOutput | None = None
    """StorageClass; the cluster's default if not set. May be an Output."""

    access_modes: list[Annotated[AccessMode, Field(strict=False)]] = Field(
        default=[AccessMode.READ_WRITE_MANY], min_length=1
    )
    """Access modes; `ReadWriteMany` by default. With `ReadWriteOnce` all pods run on one node. If
    the modes change, another claim is created, and the model is downloaded again."""


class WarmUpJobArgs(SpecModel):
    """The Job that fills the cache."""

    timeout: Duration = "2h"
    """Timeout for all attempts together, such as `2h`."""

    backoff_limit: Count = 3
    """Number of retries."""

    ttl_seconds_after_finished: Count | None = None
    """Seconds after which Kubernetes deletes the finished Job. By default it is kept, because
    Pulumi would create a deleted Job again."""

    node_selector: dict[str, StringOrOutput] | None = None
    """Node selector; values may be Outputs."""

    tolerations: Annotated[list[PodPart], matches_schema(TOLERATIONS, outputs=True)] | None = None
    """Tolerations."""

    service_account_name: ObjectNameOrOutput | None = None
    """ServiceAccount; the namespace's default if not set. Its token is not mounted. May be an
    Output."""


class CacheArgs(SpecModel):
    """A volume that caches model files for all pods of the service."""

    claim_name: ObjectNameOrOutput | None = None
    """Name of an existing PersistentVolumeClaim; mutually exclusive with `storage`. May be an
    Output."""

    storage: StorageArgs | None = None
    """A claim that the service creates."""

    mount_path: AbsolutePath = "/mnt/model-cache"
    """Mount path of the volume."""

    warm_up: bool = False
    """Whether a Job downloads the model before the pods are created. The pods then mount the cache
    read-only, unless `readOnly` is false. Without a warm-up the engines download into the cache."""

    mount_model: bool = False
    """Whether to mount the model's directory at `model.mountPath`, and each adapter's at
    `{model.mountPath}-adapters/NAME`, for commands that contain these paths. Otherwise the whole
    volume is mounted at `model.cache.mountPath`. Requires `warmUp`."""

    read_only: bool = True
    """Whether pods mount the downloaded files read-only; `false` if the engine writes next to the
    model files. Requires `warmUp`."""

    job: WarmUpJobArgs = default(WarmUpJobArgs)
    """The warm-up Job."""

    compile_cache: bool = False
    """Whether vLLM keeps compiled kernels in the volume, in the directory `compiled`, so that later
    pods of the same release, model and GPU type start without compiling. Pods write to it even with
    `readOnly`. Pods with `kvTransfer` reuse it only with vLLM 0.28 or later."""

    ONE_OF = ("claim_name", "storage")
    OTHERS_REQUIRE_FIRST = ("warm_up", "job", "mount_model", "read_only")


class ModelArgs(SpecModel):
    """The model: mounted or downloaded in every serving pod, and passed to the engine."""

    uri: ModelUri
    """`hf://ORG/NAME[@REVISION]`, `pvc://CLAIM[/PATH]`, `s3://BUCKET/KEY` or `oci://IMAGE`."""

    name: Text | None = None
    """Model name in requests. Default: the repository name for `hf://`, else the service's name."""

    size: Bytes | None = None
    """Size of the model files, such as `140Gi`."""

    config: dict[str, Any] | Text | None = None
    """The model's `config.json`, or its path, for memory checks. Default: the table of known
    models. In a manifest the path is relative to the manifest's directory and must not leave it; in
    a program it is relative to the working directory."""

    mount_path: AbsolutePath = "/mnt/models"
    """Path of the model files in the pods, unless the engine downloads them. With `cache.warmUp`
    the model has this path only if `cache.mountModel` is set."""

    path: RelativePath | None = None
    """`oci://` only: directory in the image that contains the model, such as `models`."""

    fetch: Annotated[Fetch, Field(strict=False)] | None = None
    """`hf://` only: the component that downloads the model; the engine by default."""

    fetcher: FetcherArgs = default(FetcherArgs)
    """The container that downloads the model, if the engine does not."""

    token_secret: SecretKeyArgs | None = None
    """Secret with the Hugging Face token."""

    s3: S3Args = default(S3Args)
    """Access to `s3://` buckets."""

    image_pull_secrets: list[ObjectNameOrOutput] = Field(default_factory=empty_list)
    """Secrets for pulling `oci://` models and the fetcher's image; each may be an Output."""

    lora: LoraArgs | None = None
    """LoRA adapters."""

    cache: CacheArgs | None = None
    """A volume that caches the model files."""

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check the fields that depend on the source of the model or of its adapters."""
        return check_fields(location, self, *self._list_rules(self.uri.partition("://")[0]))

    def _list_rules(self, scheme: str) -> Iterator[FieldRule]:
        adapters = self.lora.adapters if self.lora else ()
        schemes = {scheme, *(adapter.uri.partition("://")[0] for adapter in adapters)}
        for field, field_scheme in _SCHEME_OF_FIELD.items():
            # Adapters are also downloaded with the credentials in these two fields.
            used_schemes = schemes if field in ("token_secret", "s3") else {scheme}
            message = f"belongs to {field_scheme}:// (this model is {scheme}://); remove it"
            yield inapplicable_rule(field, message, when=field_scheme not in used_schemes)
        if self.cache is None:
            return
        if scheme in ("pvc", "oci"):
            reason = f"{scheme}:// is mounted directly; remove it"
            yield no_effect_rule("cache", reason, severity=Severity.ERROR)
        elif self.cache.warm_up:
            reason = "the warm-up fetches the model; remove fetch"
            yield no_effect_rule("fetch", reason, severity=Severity.ERROR)
        elif scheme == "s3" or self.fetch is Fetch.INIT_CONTAINER:
            reason = "init containers of several pods would write the same files at once"
            yield required_rule("cache.warm_up", f"must be true: {reason}")


#: The formats of a `uri`, for messages.
URI_FORMATS = "hf://ORG/NAME[@REVISION], pvc://CLAIM[/PATH], s3://BUCKET/KEY or oci://IMAGE"

# huggingface_hub, `validate_repo_id`: no `--`, `..` or `.git`, and no `-` or `.` at either end.
_PART = r"(?![\w.-]*(?:--|\.\.|\.git(?![\w.-])))\w(?:[\w.-]*\w)?"
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
# distribution/reference: the path of an image, in lower case.
_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
#: Patterns of the text after `scheme://`; the groups are attributes of `ModelSource`.
_FORMATS = {
    # Old repositories, such as gpt2, have no organization.
    "hf": rf"(?P<target>{_PART}(?:/{_PART})?)(?:[@:](?P<revision>[\w./-]+))?",
    # A path with `..` would leave the claim.
    "pvc": rf"(?P<target>{_LABEL}(?:\.{_LABEL})*)"
    r"(?:/(?!(?:\S*/)?\.\.(?:/|$))/*(?P<path>\S*?)/*)?",
    # Names of buckets have at most 63 characters.
    "s3": rf"(?P<target>(?=[^/]{{1,63}}/){_LABEL}(?:\.{_LABEL})*/[^/\s]\S*)",
    "oci": rf"(?P<target>(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?{_PATH}(?:/{_PATH})*"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?)",
}


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
    path: str = ""
    revision: str | None = None

    @property
    def fetch_uri(self) -> str:
        """The `uri` in the form that KServe's storage-initializer accepts."""
        revision = f":{self.revision}" if self.revision else ""
        return f"{self.scheme}://{self.target}{revision}"


def parse_model_uri(uri: str) -> ModelSource | None:
    """Parse a `uri`, or return None if it has none of the formats.

    A repository's revision follows `@`, or `:` as in KServe's documentation.
    """
    scheme, _, rest = uri.partition("://")
    match = re.fullmatch(_FORMATS[scheme], rest, re.ASCII) if scheme in _FORMATS else None
    if match is None:
        return None
    return ModelSource(scheme, **{key: text for key, text in match.groupdict().items() if text})


def hub_name(uri: str) -> str | None:
    """Return the Hugging Face repository of a `uri`, or None for other sources."""
    source = parse_model_uri(uri)
    return source.target if source is not None and source.scheme == "hf" else None


#: The scheme that each of these fields applies to.
_SCHEME_OF_FIELD = {"path": "oci", "fetch": "hf", "token_secret": "hf", "s3": "s3"}
