"""Converts what pulumi_kubernetes takes to plain Kubernetes structures, without importing it.

Args such as `PodTemplateSpecArgs` hold values under Python names; each property has its Kubernetes
name as an attribute. In their dictionaries fields have their names in Python, listed in a table
here: no name means two fields, and keys of maps, such as labels, are never names of fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: Fields of `PodTemplateSpecArgs` and all that it holds (pulumi-kubernetes 4.34.2; a test compares
#: them), under their names in Python.
_REGULAR = """
    access_modes active_deadline_seconds allow_privilege_escalation api_group api_version
    app_armor_profile automount_service_account_token aws_elastic_block_store azure_disk
    azure_file bind_mount_options block_owner_deletion caching_mode certificate_chain_path
    chap_auth_discovery chap_auth_session claim_name cluster_name cluster_trust_bundle
    condition_type config_map config_map_key_ref config_map_ref container_name container_port
    creation_timestamp credential_bundle_path data_source data_source_ref dataset_name
    default_mode default_user deletion_grace_period_seconds deletion_timestamp device_path
    disk_name dns_config dns_policy empty_dir enable_service_links env_from
    ephemeral_containers eviction_responders exit_codes expiration_seconds failure_threshold
    field_path field_ref fields_type fields_v1 file_key_ref flex_volume fs_group
    fs_group_change_policy fs_type gce_persistent_disk generate_name git_repo
    gmsa_credential_spec gmsa_credential_spec_name host_aliases host_network host_path
    host_port host_process host_users hostname_override http_get http_headers image_pull_policy
    image_pull_secrets init_containers initial_delay_seconds initiator_name iscsi_interface
    key_path key_type label_selector liveness_probe localhost_profile managed_fields
    match_expressions match_fields match_label_keys match_labels max_expiration_seconds
    max_skew min_domains mismatch_label_keys mount_path mount_propagation namespace_selector
    node_affinity node_affinity_policy node_name node_publish_secret_ref node_selector
    node_selector_terms node_taints_policy owner_references pd_name period_seconds
    persistent_volume_claim photon_persistent_disk pod_affinity pod_affinity_term
    pod_anti_affinity pod_certificate pod_group pod_group_name pod_group_replica_key
    portworx_volume post_start pre_stop preemption_policy
    preferred_during_scheduling_ignored_during_execution priority_class_name proc_mount
    protection_domain pull_policy read_only read_only_root_filesystem readiness_gates
    readiness_probe recursive_read_only required_during_scheduling_ignored_during_execution
    resize_policy resource_claim_name resource_claim_template_name resource_claims
    resource_field_ref resource_name resource_version restart_policy restart_policy_rules
    run_as_group run_as_non_root run_as_user run_as_user_name runtime_class_name scheduler_name
    scheduling_gates scheduling_group se_linux_change_policy se_linux_options seccomp_profile
    secret_file secret_key_ref secret_name secret_ref security_context self_link
    service_account service_account_name service_account_token share_name
    share_process_namespace signer_name size_limit ssl_enabled startup_probe stdin_once
    stop_signal storage_class_name storage_mode storage_policy_name storage_pool sub_path
    sub_path_expr success_threshold supplemental_groups supplemental_groups_policy
    target_container_name target_portal tcp_socket termination_grace_period_seconds
    termination_message_path termination_message_policy timeout_seconds toleration_seconds
    topology_key topology_spread_constraints user_annotations value_from volume_attributes
    volume_attributes_class_name volume_claim_template volume_devices volume_mode volume_mounts
    volume_name volume_namespace volume_path vsphere_volume when_unsatisfiable windows_options
    working_dir workload_ref
"""
#: Where the name in Kubernetes is not the one in Python without its underscores.
_IRREGULAR = """
    dataset_uuid=datasetUUID disk_uri=diskURI downward_api=downwardAPI exec_=exec
    host_ip=hostIP host_ipc=hostIPC host_pid=hostPID pd_id=pdID scale_io=scaleIO
    set_hostname_as_fqdn=setHostnameAsFQDN storage_policy_id=storagePolicyID
    target_wwns=targetWWNs volume_id=volumeID
"""


def _kubernetes_names() -> dict[str, str]:
    names = {}
    for name in _REGULAR.split():
        first, *others = name.split("_")
        names[name] = first + "".join(word.capitalize() for word in others)
    return names | dict(pair.split("=") for pair in _IRREGULAR.split())


#: Name in Kubernetes by name in Python, where they differ.
KUBERNETES_NAMES = _kubernetes_names()

#: Fields whose keys are the user's.
MAPS = frozenset(
    (
        "annotations",
        "labels",
        "limits",
        "matchLabels",
        "nodeSelector",
        "options",
        "overhead",
        "requests",
        "userAnnotations",
        "volumeAttributes",
    )
)

# Attribute of the SDK with the Kubernetes name of a property.
_MARK = "_pulumi_name"


def is_typed_args(value: object) -> bool:
    """Returns whether a value is an instance of a Pulumi input type."""
    return hasattr(type(value), "_pulumi_input_type") and not isinstance(value, dict)


def to_plain(value: Any) -> Any:
    """Returns a value with typed args at any depth replaced by mappings with Kubernetes' keys.

    Outputs and other values stay as they are; properties that were not set are left out.
    """
    if is_typed_args(value):
        attributes = vars(value)
        return {
            kubernetes: to_plain(attributes[python])
            for python, kubernetes in _names(type(value)).items()
            if attributes.get(python) is not None
        }
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def with_kubernetes_names(value: Any) -> Any:
    """Returns a pod template or a part of it with Kubernetes' names for the fields of Python.

    Keys that are no field's name in Python stay, and so do those of maps, such as labels.
    """
    if isinstance(value, dict):
        return {
            (named := KUBERNETES_NAMES.get(key, key)): item
            if named in MAPS and isinstance(item, dict)
            else with_kubernetes_names(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_kubernetes_names(item) for item in value]
    return value


def fields_given_twice(value: Any) -> Iterator[tuple[str, str]]:
    """Yields both names of each field that is given in Python's and in Kubernetes' spelling."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            named = KUBERNETES_NAMES.get(key, key) if isinstance(key, str) else key
            if named != key and named in value:
                yield named, key
            if named not in MAPS:
                yield from fields_given_twice(item)
    elif isinstance(value, list):
        for item in value:
            yield from fields_given_twice(item)


def _names(kind: type) -> dict[str, str]:
    return {
        python: getattr(member.fget, _MARK)
        for base in reversed(kind.__mro__)
        for python, member in vars(base).items()
        if isinstance(member, property) and hasattr(member.fget, _MARK)
    }
