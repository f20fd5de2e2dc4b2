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

#: Those that are refused offline, too.
REFUSED: list[Case] = [
    ("invalid-format", {**spec(), "metadata": {"labels": {"a": "b c"}}}, "metadata.labels.a"),
    ("unknown-value", spec(restartPolicy="OnFailure"), "spec.restartPolicy"),
    ("field-out-of-place", spec(activeDeadlineSeconds=5), "spec.activeDeadlineSeconds"),
    ("unknown-value", spec(dnsPolicy="none"), "spec.dnsPolicy"),
    ("invalid-format", spec(priorityClassName="High"), "spec.priorityClassName"),
    ("invalid-format", spec(nodeSelector={"a": "b c"}), "spec.nodeSelector.a"),
    ("field-required", spec(tolerations=[{"value": "a"}]), "spec.tolerations[0]"),
    ("sources-not-one",
     spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]), "spec.tolerations[0]"),
    ("unknown-value", spec(tolerations=[{"key": "a", "operator": "Exist"}]),
     "spec.tolerations[0].operator"),
    ("unknown-value", spec(tolerations=[{"key": "a", "effect": "Never"}]),
     "spec.tolerations[0].effect"),
    ("unknown-value", near({"key": "a", "operator": "Equals", "values": ["b"]}),
     f"{_TERMS}.matchExpressions[0].operator"),
    ("out-of-range",
     spec(affinity={"nodeAffinity": {_PREFERRED: [{"weight": 101, "preference": {}}]}}),
     f"spec.affinity.nodeAffinity.{_PREFERRED}[0].weight"),
    ("field-required", away(topologyKey=""), f"{_AWAY}.topologyKey"),
    ("out-of-range", spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew"),
    ("sources-not-one", volume(emptyDir={}, hostPath={"path": "/a"}), _V),
    ("invalid-format", spec(volumes=[{"name": "V", "emptyDir": {}}]), f"{_V}.name"),
    ("field-required", volume(secret={}), f"{_V}.secret.secretName"),
    ("field-required", spec(containers=[{"name": "a"}]), f"{_C}.image"),
    ("invalid-format", container(image="a:1 "), f"{_C}.image"),
    ("duplicate-name", spec(initContainers=[{"name": "a", **IMAGE}]),
     "spec.initContainers[0].name"),
    ("duplicate-name",
     container(ports=[{"name": "p", "containerPort": 1}, {"name": "p", "containerPort": 2}]),
     f"{_C}.ports[1].name"),
    ("out-of-range", container(ports=[{"containerPort": 65536}]), f"{_C}.ports[0].containerPort"),
    ("sources-not-one", probe(periodSeconds=5), f"{_C}.livenessProbe"),
    ("sources-not-one", probe(httpGet={"port": 80}, **_TCP), f"{_C}.livenessProbe"),
    ("invalid-format", probe(tcpSocket={"port": "80"}), f"{_C}.livenessProbe.tcpSocket.port"),
    ("field-required", probe(exec={}), f"{_C}.livenessProbe.exec.command"),
    ("name-not-found", container(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
     f"{_C}.volumeMounts[0].name"),
    ("invalid-format", container(env=[{"name": "A=B"}]), f"{_C}.env[0].name"),
    ("sources-not-one", variable(valueFrom={}), f"{_C}.env[0].valueFrom"),
    ("sources-not-one",
     variable(value="x", valueFrom={"fieldRef": {"fieldPath": "status.podIP"}}), f"{_C}.env[0]"),
    ("field-required", variable(valueFrom={"secretKeyRef": {"key": "k"}}),
     f"{_C}.env[0].valueFrom.secretKeyRef.name"),
    ("invalid-format", variable(valueFrom={"secretKeyRef": {"name": "s", "key": "a/b"}}),
     f"{_C}.env[0].valueFrom.secretKeyRef.key"),
    ("unknown-resource", resources(limits={"cpus": "1"}), f"{_R}.limits.cpus"),
    ("unknown-resource", resources(limits={"a b/c": "1"}), f"{_R}.limits[a b/c]"),
    ("requests-and-limits", resources(limits={"cpu": "1"}, requests={"cpu": "1001m"}),
     f"{_R}.requests.cpu"),
    ("requests-and-limits",
     resources(limits={"example.com/gpu": "2"}, requests={"example.com/gpu": "1"}),
     f"{_R}.requests[example.com/gpu]"),
    ("requests-and-limits", resources(requests={"example.com/gpu": "1"}),
     f"{_R}.requests[example.com/gpu]"),
    ("wrong-type", resources(limits={"example.com/gpu": "0.5"}),
     f"{_R}.limits[example.com/gpu]"),
    ("out-of-range", resources(limits={"cpu": "-1"}), f"{_R}.limits.cpu"),
    ("name-not-found", resources(claims=[{"name": "c"}]), f"{_R}.claims[0].name"),
]  # fmt: skip

#: Those that only the API server rejects, with the field that it names.
REFUSED_BY_SERVER: list[tuple[Fields, str]] = [
    (starting(readinessProbe=_TCP), "spec.initContainers[0].readinessProbe"),
    (probe(successThreshold=2, **_TCP), f"{_C}.livenessProbe.successThreshold"),
    (annotated("a b", "c"), "metadata.annotations[a b]"),
    (annotated("a", "x" * 300_000), "metadata.annotations"),
    (
        annotated("controller.kubernetes.io/pod-deletion-cost", "low"),
        "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]",
    ),
    (
        annotated("kubernetes.io/config.mirror", "x"),
        "metadata.annotations[kubernetes.io/config.mirror]",
    ),
    (
        annotated("container.apparmor.security.beta.kubernetes.io/z", "unconfined"),
        "metadata.annotations[container.apparmor.security.beta.kubernetes.io/z]",
    ),
    (
        annotated("container.apparmor.security.beta.kubernetes.io/a", "none"),
        "metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]",
    ),
    (
        annotated("seccomp.security.alpha.kubernetes.io/pod", "none"),
        "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]",
    ),
    (spec(ephemeralContainers=[{"name": "d", **IMAGE}]), "spec.ephemeralContainers"),
    (spec(dnsPolicy="None"), "spec.dnsConfig.nameservers"),
    (spec(dnsConfig={"nameservers": ["10.0.0.1"] * 4}), "spec.dnsConfig.nameservers"),
    (spec(dnsConfig={"searches": ["a"] * 33}), "spec.dnsConfig.searches"),
    (spec(dnsConfig={"nameservers": ["dns"]}), "spec.dnsConfig.nameservers[0]"),
    (spec(hostAliases=[{"ip": "a", "hostnames": ["b"]}]), "spec.hostAliases[0].ip"),
    (spec(dnsConfig={"searches": ["A b"]}), "spec.dnsConfig.searches[0]"),
    (spec(dnsConfig={"options": [{"value": "2"}]}), "spec.dnsConfig.options[0].name"),
    (spec(nodeName="node_1"), "spec.nodeName"),
    (spec(preemptionPolicy="never"), "spec.preemptionPolicy"),
    (spec(os={"name": "Linux"}), "spec.os.name"),
    (spec(hostPID=True, shareProcessNamespace=True), "spec.shareProcessNamespace"),
    (spec(hostIPC=True, hostUsers=False), "spec.hostIPC"),
    (spec(nodeName="n", schedulingGates=[{"name": "a.b/c"}]), "spec.nodeName"),
    (spec(schedulingGates=[{"name": "a b"}]), "spec.schedulingGates[0].name"),
    (spec(readinessGates=[{"conditionType": "a!"}]), "spec.readinessGates[0].conditionType"),
    (spec(overhead={"cpu": "1"}), "spec.overhead"),
    (spec(resourceClaims=[{"name": "c"}]), "spec.resourceClaims[0]"),
    (spec(securityContext={"fsGroup": -1}), "spec.securityContext.fsGroup"),
    (spec(securityContext={"runAsUser": 2**31}), "spec.securityContext.runAsUser"),
    (
        spec(securityContext={"sysctls": [{"name": "net.a", "value": "1"}] * 2}),
        "spec.securityContext.sysctls[1].name",
    ),
    (
        spec(hostNetwork=True, securityContext={"sysctls": [{"name": "net.a", "value": "1"}]}),
        "spec.securityContext.sysctls[0].name",
    ),
    (
        spec(tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]),
        "spec.tolerations[0].effect",
    ),
    (near({"key": "a", "operator": "In"}), f"{_TERMS}.matchExpressions[0].values"),
    (
        near({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
        f"{_TERMS}.matchExpressions[0].values",
    ),
    (
        near({"key": "a", "operator": "Exists", "values": ["b"]}),
        f"{_TERMS}.matchExpressions[0].values",
    ),
    (
        {
            "spec": {
                **container(ports=[{"containerPort": 1, "hostPort": 9}])["spec"],
                "hostNetwork": True,
            }
        },
        f"{_C}.ports[0].hostPort",
    ),
    (
        spec(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": []}}}),
        f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms",
    ),
    (
        near(matchFields=[{"key": "name", "operator": "In", "values": ["n"]}]),
        f"{_TERMS}.matchFields[0].key",
    ),
    (away(namespaces=["A"]), f"{_AWAY}.namespaces[0]"),
    (away(labelSelector=None, matchLabelKeys=["app"]), f"{_AWAY}.matchLabelKeys"),
    (away(matchLabelKeys=["app"]), f"{_AWAY}.matchLabelKeys[0]"),
    (
        away(labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
        f"{_AWAY}.mismatchLabelKeys[0]",
    ),
    (spread(minDomains=2), "spec.topologySpreadConstraints[0].minDomains"),
    (volume(emptyDir={"sizeLimit": "-1Gi"}), f"{_V}.emptyDir.sizeLimit"),
    (volume(hostPath={"path": "/a/../b"}), f"{_V}.hostPath.path"),
    (volume(nfs={"server": "a", "path": "b"}), f"{_V}.nfs.path"),
    (
        volume(configMap={"name": "c", "items": [{"key": "a", "path": "/a"}]}),
        f"{_V}.configMap.items[0].path",
    ),
    (
        volume(configMap={"name": "c", "items": [{"key": "a", "path": "..a"}]}),
        f"{_V}.configMap.items[0].path",
    ),
    (volume(secret={"secretName": "s", "defaultMode": 777}), f"{_V}.secret.defaultMode"),
    (volume(csi={"driver": "a b"}), f"{_V}.csi.driver"),
    (volume(fc={"lun": 1}), f"{_V}.fc"),
    (volume(fc={"targetWWNs": ["a"]}), f"{_V}.fc.lun"),
    (
        volume(projected={"sources": [{"secret": {"name": "s"}, "configMap": {"name": "c"}}]}),
        f"{_V}.projected.sources[0]",
    ),
    (
        volume(
            projected={
                "sources": [
                    {"secret": {"name": "s", "items": [{"key": "a", "path": "p"}]}},
                    {"configMap": {"name": "s", "items": [{"key": "a", "path": "p"}]}},
                ]
            }
        ),
        f"{_V}.projected.sources[1].configMap.items[0].path",
    ),
    (
        volume(
            projected={"sources": [{"serviceAccountToken": {"path": "p", "expirationSeconds": 60}}]}
        ),
        f"{_V}.projected.sources[0].serviceAccountToken.expirationSeconds",
    ),
    (volume(downwardAPI={"items": [{"path": "p"}]}), f"{_V}.downwardAPI.items[0]"),
    (
        volume(downwardAPI={"items": [{"path": "p", "fieldRef": {"fieldPath": "status.podIP"}}]}),
        f"{_V}.downwardAPI.items[0].fieldRef.fieldPath",
    ),
    (claim(accessModes=[]), f"{_CLAIM}.accessModes"),
    (claim(accessModes=["ReadWriteOncePod", "ReadWriteMany"]), f"{_CLAIM}.accessModes"),
    (claim(resources={}), f"{_CLAIM}.resources.requests.storage"),
    (claim(resources={"requests": {"storage": "0"}}), f"{_CLAIM}.resources.requests.storage"),
    (container(restartPolicy="always"), f"{_C}.restartPolicy"),
    (
        container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2),
        f"{_C}.resizePolicy[1]",
    ),
    (
        container(ports=[{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]),
        f"{_C}.ports[1]",
    ),
    (
        probe("readinessProbe", terminationGracePeriodSeconds=5, **_TCP),
        f"{_C}.readinessProbe.terminationGracePeriodSeconds",
    ),
    (container(lifecycle={"preStop": {}}), f"{_C}.lifecycle.preStop"),
    (
        container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
        f"{_C}.lifecycle.preStop.sleep.seconds",
    ),
    (
        container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
        f"{_C}.securityContext.allowPrivilegeEscalation",
    ),
    (
        container(
            securityContext={
                "allowPrivilegeEscalation": False,
                "capabilities": {"add": ["CAP_SYS_ADMIN"]},
            }
        ),
        f"{_C}.securityContext.allowPrivilegeEscalation",
    ),
    (container(securityContext={"procMount": "Unmasked"}), f"{_C}.securityContext.procMount"),
    (
        container(securityContext={"seccompProfile": {"type": "Localhost"}}),
        f"{_C}.securityContext.seccompProfile.localhostProfile",
    ),
    (
        container(
            securityContext={"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "x"}}
        ),
        f"{_C}.securityContext.seccompProfile.localhostProfile",
    ),
    (mount(subPath="/a"), f"{_C}.volumeMounts[0].subPath"),
    (mount(subPath="a", subPathExpr="b"), f"{_C}.volumeMounts[0].subPathExpr"),
    (mount(mountPropagation="Bidirectional"), f"{_C}.volumeMounts[0].mountPropagation"),
    (mount(recursiveReadOnly="Enabled"), f"{_C}.volumeMounts[0].recursiveReadOnly"),
    (
        mount(recursiveReadOnly="Enabled", readOnly=True, mountPropagation="HostToContainer"),
        f"{_C}.volumeMounts[0].recursiveReadOnly",
    ),
    (
        {
            "spec": {
                "containers": [{**mount()["spec"]["containers"][0], "volumeDevices": [_DEVICE]}],
                "volumes": [{"name": "v", **_PVC}],
            }
        },
        f"{_C}.volumeMounts[0].name",
    ),
    (
        {
            "spec": {
                "containers": [
                    {
                        **mount()["spec"]["containers"][0],
                        "volumeDevices": [{"name": "w", "devicePath": "/v"}],
                    }
                ],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", **_PVC}],
            }
        },
        f"{_C}.volumeMounts[0].mountPath",
    ),
    (
        {
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        **IMAGE,
                        "volumeDevices": [_DEVICE, {"name": "v", "devicePath": "/dev/w"}],
                    }
                ],
                "volumes": [{"name": "v", **_PVC}],
            }
        },
        f"{_C}.volumeDevices[1]",
    ),
    (
        {
            "spec": {
                "containers": [{"name": "a", **IMAGE, "volumeDevices": [_DEVICE]}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            }
        },
        f"{_C}.volumeDevices[0].name",
    ),
    (
        {"spec": {"containers": [{"name": "a", **IMAGE, "volumeDevices": [_DEVICE]}]}},
        f"{_C}.volumeDevices[0].name",
    ),
    (
        {
            "spec": {
                "containers": [{"name": "a", **IMAGE, "volumeDevices": [_DEVICE]}],
                "hostUsers": False,
                "volumes": [{"name": "v", **_PVC}],
            }
        },
        f"{_C}.volumeDevices",
    ),
    (
        variable(valueFrom={"fieldRef": {"fieldPath": "status.podIp"}}),
        f"{_C}.env[0].valueFrom.fieldRef.fieldPath",
    ),
    (
        variable(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a b']"}}),
        f"{_C}.env[0].valueFrom.fieldRef.fieldPath",
    ),
    (
        variable(valueFrom={"resourceFieldRef": {"resource": "cpu"}}),
        f"{_C}.env[0].valueFrom.resourceFieldRef.resource",
    ),
    (
        variable(valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1k"}}),
        f"{_C}.env[0].valueFrom.resourceFieldRef.divisor",
    ),
    (
        {
            "spec": {
                **variable(valueFrom={"fileKeyRef": {"key": "A", "volumeName": "v", "path": "p"}})[
                    "spec"
                ],
                "volumes": [{"name": "v", "hostPath": {"path": "/v"}}],
            }
        },
        f"{_C}.env[0].valueFrom.fileKeyRef.volumeName",
    ),
    (container(envFrom=[{"prefix": "A"}]), f"{_C}.envFrom[0]"),
    (container(envFrom=[{"secretRef": {"name": "A"}}]), f"{_C}.envFrom[0].secretRef.name"),
    (resources(limits={"hugepages-2Mi": "2Mi"}), _R),
    (resources(limits={"hugepages-2Mi": "3Mi", "cpu": "1"}), f"{_R}.limits.hugepages-2Mi"),
    (resources(limits={"hugepages-x": "2Mi", "cpu": "1"}), f"{_R}.limits.hugepages-x"),
    (
        spec(resources={"limits": {"example.com/gpu": "1"}}),
        "spec.resources.limits[example.com/gpu]",
    ),
    (
        spec(
            resources={"claims": [{"name": "c"}]},
            resourceClaims=[{"name": "c", "resourceClaimName": "c"}],
        ),
        "spec.resources.claims",
    ),
    (
        {
            "spec": {
                **resources(requests={"cpu": "2"})["spec"],
                "resources": {"requests": {"cpu": "1"}},
            }
        },
        "spec.resources.requests.cpu",
    ),
    (
        {
            "spec": {
                **resources(requests={"cpu": "2"})["spec"],
                "resources": {"limits": {"cpu": "1"}},
            }
        },
        "spec.resources.limits.cpu",
    ),
    (
        {
            "spec": {
                **resources(limits={"cpu": "2"}, requests={"cpu": "1"})["spec"],
                "resources": {"limits": {"cpu": "1"}},
            }
        },
        "spec.containers[0].resources.limits.cpu",
    ),
]

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
