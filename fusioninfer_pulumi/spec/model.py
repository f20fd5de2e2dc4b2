"""The model that a service serves: where its files come from, and how they get into the pods."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from fusioninfer_pulumi.spec.amounts import Bytes
from fusioninfer_pulumi.spec.base import Count, LeafText, PositiveCount, SpecModel
from fusioninfer_pulumi.spec.forms import ObjectName, form

#: The program that fetches models by default: KServe's, in the release whose chart names it.
FETCHER_IMAGE = "kserve/storage-initializer:v0.20.0"
#: How it is started (`python/storage-initializer.Dockerfile`): sources and folders in pairs.
FETCHER_COMMAND = ("/storage-initializer/scripts/initializer-entrypoint",)
FETCHER_USER = 1000

Text = Annotated[str, StringConstraints(min_length=1)]
AbsolutePath = Annotated[
    str,
    form(r"^(/[A-Za-z0-9_.-]+)+$", "a path such as /models/chat, of A-Z a-z 0-9 _ . - and /"),
]
RelativePath = Annotated[
    str,
    form(
        r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$",
        "a path such as models/chat without a / before it, of A-Z a-z 0-9 _ . - and /",
    ),
]


class Fetch(str, enum.Enum):
    """Who brings a model's files into a pod."""

    ENGINE = "Engine"  #: the engine, from Hugging Face, when it starts
    INIT_CONTAINER = "InitContainer"  #: a container that ends before the engine starts


class AccessMode(str, enum.Enum):
    """Kubernetes' access modes of a volume."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class SecretKeyArgs(SpecModel):
    """One key of a Secret in the service's namespace."""

    name: ObjectName
    """Name of the Secret."""

    key: Text = "HF_TOKEN"
    """Key that holds the value."""


class S3Args(SpecModel):
    """How a bucket is reached."""

    secret_name: ObjectName | None = None
    """Secret with the credentials; without one the pod's identity is used."""

    access_key_id_key: Text = "AWS_ACCESS_KEY_ID"
    """Key of the Secret that holds the access key's id."""

    secret_access_key_key: Text = "AWS_SECRET_ACCESS_KEY"  # noqa: S105  # the name of a key
    """Key of the Secret that holds the secret access key."""

    endpoint: Text | None = None
    """URL of a store other than AWS."""

    region: Text | None = None
    """Region of the bucket."""


class LoraAdapterArgs(SpecModel):
    """One LoRA adapter."""

    name: Text
    """Name by which requests ask for it."""

    uri: Text
    """Where it comes from, in the forms of the model's `uri`."""


class LoraArgs(SpecModel):
    """LoRA adapters that are served beside the model."""

    adapters: list[LoraAdapterArgs] = Field(min_length=1)
    """The adapters."""

    max_rank: PositiveCount | None = None
    """Largest rank of an adapter, by default the engine's."""

    max_adapters: PositiveCount | None = None
    """Adapters in one batch, by default the engine's."""

    max_cpu_adapters: PositiveCount | None = None
    """Adapters that are kept in memory, by default the engine's."""


class FetcherArgs(SpecModel):
    """The container that fetches models: of the warm-up Job, or before the engine of each pod."""

    image: LeafText = FETCHER_IMAGE
    """Its image, by default KServe's storage-initializer; may be an Output."""

    command: list[str] = Field(default=list(FETCHER_COMMAND), min_length=1)
    """What fetches: it gets a source and a folder as its last two arguments."""

    env: list[dict[str, Any]] = Field(default_factory=list)
    """More variables, such as proxies or mirrors."""

    resources: dict[str, Any] | None = None
    """Its resources, in place of the default requests (100m CPU, 512Mi memory)."""

    security_context: dict[str, Any] | None = None
    """Its security context, in place of an unprivileged one of user 1000."""


class StorageArgs(SpecModel):
    """A PersistentVolumeClaim of the service's own."""

    size: Bytes
    """Its size, such as `500Gi`."""

    storage_class_name: ObjectName | None = None
    """StorageClass, by default the cluster's."""

    access_modes: list[Annotated[AccessMode, Field(strict=False)]] = Field(
        default=[AccessMode.READ_WRITE_MANY], min_length=1
    )
    """Access modes, by default `ReadWriteMany`; other ones would have to change, and the claim with
    them, when the service grows."""


class WarmUpJobArgs(SpecModel):
    """The pod that fills the cache."""

    timeout: Text = "2h"
    """How long it may take, all attempts together."""

    backoff_limit: Count = 3
    """Attempts after the first."""

    ttl_seconds_after_finished: Count | None = None
    """Seconds after which the cluster deletes it; by default it stays, as Pulumi would make a
    deleted one anew."""

    node_selector: dict[str, str] | None = None
    """Nodes on which it may run."""

    tolerations: list[dict[str, Any]] | None = None
    """Taints that it tolerates."""

    service_account_name: ObjectName | None = None
    """Its ServiceAccount, by default the namespace's; it gets no token."""


class CacheArgs(SpecModel):
    """A volume that keeps model files for all pods of the service."""

    claim_name: ObjectName | None = None
    """An existing PersistentVolumeClaim; exclusive with `storage`."""

    storage: StorageArgs | None = None
    """A claim that the service makes."""

    mount_path: AbsolutePath = "/mnt/model-cache"
    """Where it is mounted."""

    warm_up: bool = False
    """Whether a Job fills it before the pods are made, which then only read it. Without it,
    engines download into it."""

    mount_model: bool = False
    """Mounts the model's own folder of the volume at `model.mountPath`, and each adapter's at
    `{mountPath}-adapters/NAME`, in place of the whole volume at `mountPath`: for commands that name
    such a path. Needs `warmUp`."""

    read_only: bool = True
    """Whether pods mount read-only what the Job wrote; `false` is for engines that write beside the
    model's files. Needs `warmUp`."""

    job: WarmUpJobArgs = Field(default_factory=WarmUpJobArgs)
    """The Job."""


class ModelArgs(SpecModel):
    """The model: its files get into every serving pod, and the engine's arguments name it."""

    uri: Text
    """`hf://ORG/NAME[@REVISION]`, `pvc://CLAIM[/PATH]`, `s3://BUCKET/KEY` or `oci://IMAGE`."""

    name: Text | None = None
    """Name by which requests ask for it; by default the repository's for `hf://`, else the
    service's."""

    size: Bytes | None = None
    """Size of its files, such as `140Gi`."""

    mount_path: AbsolutePath = "/mnt/models"
    """Where its files are, but for those in a cache without `mountModel`."""

    path: RelativePath | None = None
    """`oci://` only: folder of the image that holds the model, such as `models`."""

    fetch: Annotated[Fetch, Field(strict=False)] | None = None
    """`hf://` only: who fetches it, by default the engine."""

    fetcher: FetcherArgs = Field(default_factory=FetcherArgs)
    """The container that fetches, where the engine does not."""

    token_secret: SecretKeyArgs | None = None
    """Secret with the token for Hugging Face."""

    s3: S3Args = Field(default_factory=S3Args)
    """How `s3://` is reached."""

    image_pull_secrets: list[ObjectName] = Field(default_factory=list)
    """Secrets for pulling `oci://` and the fetcher's image."""

    lora: LoraArgs | None = None
    """LoRA adapters."""

    cache: CacheArgs | None = None
    """A volume that keeps the files."""
