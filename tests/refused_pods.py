"""Pod templates that fit their schema and that no API server takes, one or more for each rule."""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]
#: Rule, fields of the template, and where the finding stands in it.
Case = tuple[str, Fields, str]

IMAGE = {"image": "example.com/a:1"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TERMS = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0]"
_AWAY = f"spec.affinity.podAntiAffinity.{_REQUIRED}[0]"


def spec(**fields: Any) -> Fields:
    """A template with more fields of its spec."""
    return {"spec": {"containers": [{"name": "a", **IMAGE}], **fields}}


def container(**fields: Any) -> Fields:
    """A template whose container has more fields."""
    return spec(containers=[{"name": "a", **IMAGE, **fields}])


def starting(**fields: Any) -> Fields:
    """A template with an init container."""
    return spec(initContainers=[{"name": "b", **IMAGE, **fields}])


def volume(**source: Any) -> Fields:
    """A template with a volume."""
    return spec(volumes=[{"name": "v", **source}])


def mount(source: Fields | None = None, **fields: Any) -> Fields:
    """A template whose container mounts a volume."""
    held = {"name": "a", **IMAGE, "volumeMounts": [{"name": "v", "mountPath": "/v", **fields}]}
    return spec(containers=[held], volumes=[{"name": "v", **(source or {"emptyDir": {}})}])


def variable(**fields: Any) -> Fields:
    """A template with a variable."""
    return container(env=[{"name": "A", **fields}])


def probe(kind: str = "livenessProbe", **fields: Any) -> Fields:
    """A template with a probe."""
    return container(**{kind: fields})


def resources(**fields: Any) -> Fields:
    """A template whose container has resources."""
    return container(resources=fields)


def annotated(key: str, value: str) -> Fields:
    """A template with an annotation."""
    return {**spec(), "metadata": {"annotations": {key: value}}}


def near(*expressions: Fields, **term: Any) -> Fields:
    """A template with a required term of its node affinity."""
    terms = [{"matchExpressions": list(expressions), **term}]
    return spec(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}})


def away(**term: Any) -> Fields:
    """A template, labelled `app: x`, with a required term of its pod anti-affinity."""
    held = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}, **term}
    made = spec(affinity={"podAntiAffinity": {_REQUIRED: [held]}})
    return {**made, "metadata": {"labels": {"app": "x"}}}


def spread(**fields: Any) -> Fields:
    """A template with a topology spread constraint."""
    held = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **fields}
    return spec(topologySpreadConstraints=[held])


def claim(**fields: Any) -> Fields:
    """A template with a claim for a volume of its own."""
    held = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return volume(ephemeral={"volumeClaimTemplate": {"spec": {**held, **fields}}})


_V, _C, _R = "spec.volumes[0]", "spec.containers[0]", "spec.containers[0].resources"
_CLAIM = f"{_V}.ephemeral.volumeClaimTemplate.spec"
_TCP = {"tcpSocket": {"port": 80}}
_DEVICE = {"name": "v", "devicePath": "/dev/v"}
_PVC = {"persistentVolumeClaim": {"claimName": "c"}}

REFUSED: list[Case] = [
    # Metadata
    ("invalid-label", {**spec(), "metadata": {"labels": {"a": "b c"}}}, "metadata.labels.a"),
    ("invalid-label-key", annotated("a b", "c"), "metadata.annotations[a b]"),
    ("annotations-too-large", annotated("a", "x" * 300_000), "metadata.annotations"),
    ("invalid-deletion-cost", annotated("controller.kubernetes.io/pod-deletion-cost", "low"),
     "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]"),
    ("mirror-pod", annotated("kubernetes.io/config.mirror", "x"),
     "metadata.annotations[kubernetes.io/config.mirror]"),
    ("profile-of-no-container",
     annotated("container.apparmor.security.beta.kubernetes.io/z", "unconfined"),
     "metadata.annotations[container.apparmor.security.beta.kubernetes.io/z]"),
    ("invalid-security-profile",
     annotated("container.apparmor.security.beta.kubernetes.io/a", "none"),
     "metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]"),
    ("invalid-security-profile", annotated("seccomp.security.alpha.kubernetes.io/pod", "none"),
     "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]"),
    # The pod
    ("pod-restart-policy", spec(restartPolicy="OnFailure"), "spec.restartPolicy"),
    ("pod-deadline", spec(activeDeadlineSeconds=5), "spec.activeDeadlineSeconds"),
    ("ephemeral-container", spec(ephemeralContainers=[{"name": "d", **IMAGE}]),
     "spec.ephemeralContainers"),
    ("unknown-value", spec(dnsPolicy="none"), "spec.dnsPolicy"),
    ("nameserver-missing", spec(dnsPolicy="None"), "spec.dnsConfig.nameservers"),
    ("too-long", spec(dnsConfig={"nameservers": ["10.0.0.1"] * 4}), "spec.dnsConfig.nameservers"),
    ("too-long", spec(dnsConfig={"searches": ["a"] * 33}), "spec.dnsConfig.searches"),
    ("invalid-address", spec(dnsConfig={"nameservers": ["dns"]}),
     "spec.dnsConfig.nameservers[0]"),
    ("invalid-address", spec(hostAliases=[{"ip": "a", "hostnames": ["b"]}]),
     "spec.hostAliases[0].ip"),
    ("invalid-format", spec(dnsConfig={"searches": ["A b"]}), "spec.dnsConfig.searches[0]"),
    ("field-required", spec(dnsConfig={"options": [{"value": "2"}]}),
     "spec.dnsConfig.options[0].name"),
    ("invalid-format", spec(priorityClassName="High"), "spec.priorityClassName"),
    ("invalid-format", spec(nodeName="node_1"), "spec.nodeName"),
    ("unknown-value", spec(preemptionPolicy="never"), "spec.preemptionPolicy"),
    ("unknown-value", spec(os={"name": "Linux"}), "spec.os.name"),
    ("invalid-label", spec(nodeSelector={"a": "b c"}), "spec.nodeSelector.a"),
    ("process-namespaces-several", spec(hostPID=True, shareProcessNamespace=True),
     "spec.shareProcessNamespace"),
    ("host-namespace-without-users", spec(hostIPC=True, hostUsers=False), "spec.hostIPC"),
    ("node-name-with-gates", spec(nodeName="n", schedulingGates=[{"name": "a.b/c"}]),
     "spec.nodeName"),
    ("invalid-format", spec(schedulingGates=[{"name": "a b"}]), "spec.schedulingGates[0].name"),
    ("invalid-format", spec(readinessGates=[{"conditionType": "a!"}]),
     "spec.readinessGates[0].conditionType"),
    ("overhead-without-runtime-class", spec(overhead={"cpu": "1"}), "spec.overhead"),
    ("claim-sources-not-one", spec(resourceClaims=[{"name": "c"}]), "spec.resourceClaims[0]"),
    ("out-of-range", spec(securityContext={"fsGroup": -1}), "spec.securityContext.fsGroup"),
    ("out-of-range", spec(securityContext={"runAsUser": 2**31}), "spec.securityContext.runAsUser"),
    ("sysctl-twice", spec(securityContext={"sysctls": [{"name": "net.a", "value": "1"}] * 2}),
     "spec.securityContext.sysctls[1].name"),
    ("sysctl-of-host",
     spec(hostNetwork=True, securityContext={"sysctls": [{"name": "net.a", "value": "1"}]}),
     "spec.securityContext.sysctls[0].name"),
    # Scheduling
    ("toleration-without-key", spec(tolerations=[{"value": "a"}]), "spec.tolerations[0].operator"),
    ("toleration-value-with-exists",
     spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
     "spec.tolerations[0].value"),
    ("toleration-seconds-without-effect",
     spec(tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]),
     "spec.tolerations[0].effect"),
    ("unknown-value", spec(tolerations=[{"key": "a", "operator": "Exist"}]),
     "spec.tolerations[0].operator"),
    ("unknown-value", spec(tolerations=[{"key": "a", "effect": "Never"}]),
     "spec.tolerations[0].effect"),
    ("node-terms-missing",
     spec(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": []}}}),
     f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"),
    ("values-missing", near({"key": "a", "operator": "In"}),
     f"{_TERMS}.matchExpressions[0].values"),
    ("values-missing", near({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
     f"{_TERMS}.matchExpressions[0].values"),
    ("values-without-effect", near({"key": "a", "operator": "Exists", "values": ["b"]}),
     f"{_TERMS}.matchExpressions[0].values"),
    ("unknown-value", near({"key": "a", "operator": "Equals", "values": ["b"]}),
     f"{_TERMS}.matchExpressions[0].operator"),
    ("unknown-value", near(matchFields=[{"key": "name", "operator": "In", "values": ["n"]}]),
     f"{_TERMS}.matchFields[0].key"),
    ("out-of-range",
     spec(affinity={"nodeAffinity": {_PREFERRED: [{"weight": 101, "preference": {}}]}}),
     f"spec.affinity.nodeAffinity.{_PREFERRED}[0].weight"),
    ("invalid-format", away(namespaces=["A"]), f"{_AWAY}.namespaces[0]"),
    ("field-required", away(topologyKey=""), f"{_AWAY}.topologyKey"),
    ("label-keys-without-selector", away(labelSelector=None, matchLabelKeys=["app"]),
     f"{_AWAY}.matchLabelKeys"),
    ("label-key-selected-twice", away(matchLabelKeys=["app"]), f"{_AWAY}.matchLabelKeys[0]"),
    ("label-key-contradicts", away(labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
     f"{_AWAY}.mismatchLabelKeys[0]"),
    ("out-of-range", spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew"),
    ("minimum-domains-not-required", spread(minDomains=2),
     "spec.topologySpreadConstraints[0].minDomains"),
    # Volumes
    ("volume-sources-several", volume(emptyDir={}, hostPath={"path": "/a"}), _V),
    ("invalid-format", spec(volumes=[{"name": "V", "emptyDir": {}}]), f"{_V}.name"),
    ("negative-quantity", volume(emptyDir={"sizeLimit": "-1Gi"}), f"{_V}.emptyDir.sizeLimit"),
    ("path-steps-back", volume(hostPath={"path": "/a/../b"}), f"{_V}.hostPath.path"),
    ("path-not-absolute", volume(nfs={"server": "a", "path": "b"}), f"{_V}.nfs.path"),
    ("path-not-relative", volume(configMap={"name": "c", "items": [{"key": "a", "path": "/a"}]}),
     f"{_V}.configMap.items[0].path"),
    ("path-reserved", volume(configMap={"name": "c", "items": [{"key": "a", "path": "..a"}]}),
     f"{_V}.configMap.items[0].path"),
    ("field-required", volume(secret={}), f"{_V}.secret.secretName"),
    ("out-of-range", volume(secret={"secretName": "s", "defaultMode": 777}),
     f"{_V}.secret.defaultMode"),
    ("invalid-format", volume(csi={"driver": "a b"}), f"{_V}.csi.driver"),
    ("disk-names-not-one", volume(fc={"lun": 1}), f"{_V}.fc"),
    ("field-required", volume(fc={"targetWWNs": ["a"]}), f"{_V}.fc.lun"),
    ("projected-sources-several",
     volume(projected={"sources": [{"secret": {"name": "s"}, "configMap": {"name": "c"}}]}),
     f"{_V}.projected.sources[0]"),
    ("projected-path-twice",
     volume(projected={"sources": [
         {"secret": {"name": "s", "items": [{"key": "a", "path": "p"}]}},
         {"configMap": {"name": "s", "items": [{"key": "a", "path": "p"}]}}]}),
     f"{_V}.projected.sources[1].configMap.items[0].path"),
    ("out-of-range",
     volume(projected={"sources": [
         {"serviceAccountToken": {"path": "p", "expirationSeconds": 60}}]}),
     f"{_V}.projected.sources[0].serviceAccountToken.expirationSeconds"),
    ("file-sources-not-one", volume(downwardAPI={"items": [{"path": "p"}]}),
     f"{_V}.downwardAPI.items[0]"),
    ("unknown-field-path",
     volume(downwardAPI={"items": [{"path": "p", "fieldRef": {"fieldPath": "status.podIP"}}]}),
     f"{_V}.downwardAPI.items[0].fieldRef.fieldPath"),
    ("field-required", claim(accessModes=[]), f"{_CLAIM}.accessModes"),
    ("access-modes-exclude-each-other", claim(accessModes=["ReadWriteOncePod", "ReadWriteMany"]),
     f"{_CLAIM}.accessModes"),
    ("field-required", claim(resources={}), f"{_CLAIM}.resources.requests.storage"),
    ("out-of-range", claim(resources={"requests": {"storage": "0"}}),
     f"{_CLAIM}.resources.requests.storage"),
    # Containers
    ("field-required", spec(containers=[{"name": "a"}]), f"{_C}.image"),
    ("invalid-image", container(image="a:1 "), f"{_C}.image"),
    ("duplicate-container-name", spec(initContainers=[{"name": "a", **IMAGE}]),
     "spec.initContainers[0].name"),
    ("probe-of-init-container", starting(readinessProbe=_TCP),
     "spec.initContainers[0].readinessProbe"),
    ("unknown-value", container(restartPolicy="always"), f"{_C}.restartPolicy"),
    ("resize-policy-twice",
     container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2),
     f"{_C}.resizePolicy[1]"),
    ("duplicate-port-name",
     container(ports=[{"name": "p", "containerPort": 1}, {"name": "p", "containerPort": 2}]),
     f"{_C}.ports[1].name"),
    ("out-of-range", container(ports=[{"containerPort": 65536}]), f"{_C}.ports[0].containerPort"),
    ("host-port-twice",
     container(ports=[{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]),
     f"{_C}.ports[1]"),
    ("host-port-differs",
     {"spec": {**container(ports=[{"containerPort": 1, "hostPort": 9}])["spec"],
               "hostNetwork": True}},
     f"{_C}.ports[0].hostPort"),
    ("probe-handlers-not-one", probe(periodSeconds=5), f"{_C}.livenessProbe"),
    ("probe-handlers-not-one", probe(httpGet={"port": 80}, **_TCP), f"{_C}.livenessProbe"),
    ("success-threshold-not-one", probe(successThreshold=2, **_TCP),
     f"{_C}.livenessProbe.successThreshold"),
    ("grace-period-of-readiness",
     probe("readinessProbe", terminationGracePeriodSeconds=5, **_TCP),
     f"{_C}.readinessProbe.terminationGracePeriodSeconds"),
    ("invalid-port", probe(tcpSocket={"port": "80"}), f"{_C}.livenessProbe.tcpSocket.port"),
    ("field-required", probe(exec={}), f"{_C}.livenessProbe.exec.command"),
    ("hook-handlers-not-one", container(lifecycle={"preStop": {}}), f"{_C}.lifecycle.preStop"),
    ("sleep-above-grace-period", container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
     f"{_C}.lifecycle.preStop.sleep.seconds"),
    ("privileged-without-escalation",
     container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
     f"{_C}.securityContext.allowPrivilegeEscalation"),
    ("admin-without-escalation",
     container(securityContext={"allowPrivilegeEscalation": False,
                                "capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
     f"{_C}.securityContext.allowPrivilegeEscalation"),
    ("proc-mount-of-host-users", container(securityContext={"procMount": "Unmasked"}),
     f"{_C}.securityContext.procMount"),
    ("field-required", container(securityContext={"seccompProfile": {"type": "Localhost"}}),
     f"{_C}.securityContext.seccompProfile.localhostProfile"),
    ("profile-without-effect",
     container(securityContext={"seccompProfile": {"type": "RuntimeDefault",
                                                   "localhostProfile": "x"}}),
     f"{_C}.securityContext.seccompProfile.localhostProfile"),
    # Mounts
    ("volume-missing", container(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
     f"{_C}.volumeMounts[0].name"),
    ("path-not-relative", mount(subPath="/a"), f"{_C}.volumeMounts[0].subPath"),
    ("sub-paths-several", mount(subPath="a", subPathExpr="b"),
     f"{_C}.volumeMounts[0].subPathExpr"),
    ("propagation-without-privilege", mount(mountPropagation="Bidirectional"),
     f"{_C}.volumeMounts[0].mountPropagation"),
    ("recursive-without-read-only", mount(recursiveReadOnly="Enabled"),
     f"{_C}.volumeMounts[0].recursiveReadOnly"),
    ("recursive-with-propagation",
     mount(recursiveReadOnly="Enabled", readOnly=True, mountPropagation="HostToContainer"),
     f"{_C}.volumeMounts[0].recursiveReadOnly"),
    ("volume-mounted-as-device",
     {"spec": {"containers": [{**mount()["spec"]["containers"][0], "volumeDevices": [_DEVICE]}],
               "volumes": [{"name": "v", **_PVC}]}},
     f"{_C}.volumeMounts[0].name"),
    ("path-of-device",
     {"spec": {"containers": [{**mount()["spec"]["containers"][0],
                               "volumeDevices": [{"name": "w", "devicePath": "/v"}]}],
               "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", **_PVC}]}},
     f"{_C}.volumeMounts[0].mountPath"),
    ("device-named-twice",
     {"spec": {"containers": [{"name": "a", **IMAGE,
                               "volumeDevices": [_DEVICE, {"name": "v", "devicePath": "/dev/w"}]}],
               "volumes": [{"name": "v", **_PVC}]}},
     f"{_C}.volumeDevices[1]"),
    ("device-without-claim",
     {"spec": {"containers": [{"name": "a", **IMAGE, "volumeDevices": [_DEVICE]}],
               "volumes": [{"name": "v", "emptyDir": {}}]}},
     f"{_C}.volumeDevices[0].name"),
    ("devices-without-host-users",
     {"spec": {"containers": [{"name": "a", **IMAGE, "volumeDevices": [_DEVICE]}],
               "hostUsers": False, "volumes": [{"name": "v", **_PVC}]}},
     f"{_C}.volumeDevices"),
    # Variables
    ("invalid-format", container(env=[{"name": "A=B"}]), f"{_C}.env[0].name"),
    ("variable-sources-not-one", variable(valueFrom={}), f"{_C}.env[0].valueFrom"),
    ("value-beside-value-from",
     variable(value="x", valueFrom={"fieldRef": {"fieldPath": "status.podIP"}}),
     f"{_C}.env[0].valueFrom"),
    ("unknown-field-path", variable(valueFrom={"fieldRef": {"fieldPath": "status.podIp"}}),
     f"{_C}.env[0].valueFrom.fieldRef.fieldPath"),
    ("invalid-label-key", variable(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a b']"}}),
     f"{_C}.env[0].valueFrom.fieldRef.fieldPath"),
    ("unknown-resource-field", variable(valueFrom={"resourceFieldRef": {"resource": "cpu"}}),
     f"{_C}.env[0].valueFrom.resourceFieldRef.resource"),
    ("unknown-divisor",
     variable(valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1k"}}),
     f"{_C}.env[0].valueFrom.resourceFieldRef.divisor"),
    ("field-required", variable(valueFrom={"secretKeyRef": {"key": "k"}}),
     f"{_C}.env[0].valueFrom.secretKeyRef.name"),
    ("invalid-format", variable(valueFrom={"secretKeyRef": {"name": "s", "key": "a/b"}}),
     f"{_C}.env[0].valueFrom.secretKeyRef.key"),
    ("volume-not-empty-dir",
     {"spec": {**variable(valueFrom={"fileKeyRef": {"key": "A", "volumeName": "v",
                                                    "path": "p"}})["spec"],
               "volumes": [{"name": "v", "hostPath": {"path": "/v"}}]}},
     f"{_C}.env[0].valueFrom.fileKeyRef.volumeName"),
    ("env-sources-not-one", container(envFrom=[{"prefix": "A"}]), f"{_C}.envFrom[0]"),
    ("invalid-format", container(envFrom=[{"secretRef": {"name": "A"}}]),
     f"{_C}.envFrom[0].secretRef.name"),
    # Resources
    ("unknown-resource", resources(limits={"cpus": "1"}), f"{_R}.limits.cpus"),
    ("unknown-resource", resources(limits={"a b/c": "1"}), f"{_R}.limits[a b/c]"),
    ("request-above-limit", resources(limits={"cpu": "1"}, requests={"cpu": "1001m"}),
     f"{_R}.requests.cpu"),
    ("request-differs-from-limit",
     resources(limits={"example.com/gpu": "2"}, requests={"example.com/gpu": "1"}),
     f"{_R}.requests[example.com/gpu]"),
    ("limit-missing", resources(requests={"example.com/gpu": "1"}),
     f"{_R}.requests[example.com/gpu]"),
    ("fractional-devices", resources(limits={"example.com/gpu": "0.5"}),
     f"{_R}.limits[example.com/gpu]"),
    ("negative-quantity", resources(limits={"cpu": "-1"}), f"{_R}.limits.cpu"),
    ("huge-pages-alone", resources(limits={"hugepages-2Mi": "2Mi"}), _R),
    ("fractional-huge-pages", resources(limits={"hugepages-2Mi": "3Mi", "cpu": "1"}),
     f"{_R}.limits.hugepages-2Mi"),
    ("invalid-page-size", resources(limits={"hugepages-x": "2Mi", "cpu": "1"}),
     f"{_R}.limits.hugepages-x"),
    ("claim-missing", resources(claims=[{"name": "c"}]), f"{_R}.claims[0].name"),
    ("claim-named-twice",
     {"spec": {**resources(claims=[{"name": "c"}, {"name": "c", "request": "r"}])["spec"],
               "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}},
     f"{_R}.claims[1]"),
    ("unknown-pod-resource", spec(resources={"limits": {"example.com/gpu": "1"}}),
     "spec.resources.limits[example.com/gpu]"),
    ("claims-of-pod-resources",
     spec(resources={"claims": [{"name": "c"}]},
          resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
     "spec.resources.claims"),
    ("pod-request-below-containers",
     {"spec": {**resources(requests={"cpu": "2"})["spec"],
               "resources": {"requests": {"cpu": "1"}}}},
     "spec.resources.requests.cpu"),
    ("pod-limit-below-containers",
     {"spec": {**resources(requests={"cpu": "2"})["spec"], "resources": {"limits": {"cpu": "1"}}}},
     "spec.resources.limits.cpu"),
    ("limit-above-pod-limit",
     {"spec": {**resources(limits={"cpu": "2"}, requests={"cpu": "1"})["spec"],
               "resources": {"limits": {"cpu": "1"}}}},
     "spec.containers[0].resources.limits.cpu"),
    ("spread-twice",
     spec(topologySpreadConstraints=[{"maxSkew": skew, "topologyKey": "zone",
                                      "whenUnsatisfiable": "ScheduleAnyway"} for skew in (1, 2)]),
     "spec.topologySpreadConstraints[1]"),
]  # fmt: skip

#: Unusual templates that every API server takes.
TAKEN: list[Fields] = [
    spec(dnsPolicy="None", dnsConfig={"nameservers": ["010.0.0.1", "::1"], "searches": ["a_b.c."]}),
    spec(terminationGracePeriodSeconds=-1),
    spec(tolerations=[{"operator": "Exists"}, {"key": "a", "value": ""}]),
    spec(volumes=[{"name": "v"}, {"name": "w", "emptyDir": {"medium": "any", "sizeLimit": "0"}}]),
    away(labelSelector={"matchLabels": {"b": "c"}}, matchLabelKeys=["b", "none"]),
    container(envFrom=[{"configMapRef": {"name": "a-"}}], env=[{"name": "1 A.b"}]),
    variable(value="", valueFrom={"fieldRef": {"fieldPath": "spec.host"}}),
    probe("readinessProbe", successThreshold=3, **_TCP),
    probe(successThreshold=0, httpGet={"path": "", "port": "http"}),
    starting(restartPolicy="Always", readinessProbe=_TCP, lifecycle={"preStop": {"sleep": {}}}),
    container(lifecycle={"preStop": {"sleep": {"seconds": 30}}}),
    container(ports=[{"containerPort": 1, "hostPort": 9},
                     {"containerPort": 2, "hostPort": 9, "protocol": "UDP"}]),
    resources(limits={"cpu": "1", "hugepages-2Mi": "4Mi"}, requests={"cpu": "1000m"}),
    resources(limits={"example.com/gpu": "1", "x.kubernetes.io/y": "0.5"}),
    resources(limits={"ephemeral-storage": "1Gi"}, requests={"memory": "0"}),
    mount(mountPath="relative:path", subPathExpr="$(A)"),
    mount(readOnly=True, recursiveReadOnly="IfPossible", mountPropagation="None"),
    claim(resources={"requests": {"storage": "1Gi", "x": "1"}}),
    annotated("Example.com/Upper", "x"),
]  # fmt: skip
