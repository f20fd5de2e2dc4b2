"""What a program registers becomes manifests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from cli.projects import messages

from fusioninfer_pulumi.cli.program import Recording

Run = Callable[..., Recording]


def manifests(recording: Recording) -> list[dict[str, Any]]:
    return [resource.manifest for resource in recording.resources]


def test_custom_resource_spec_is_verbatim(run: Run) -> None:
    recording = run(
        """
        k8s.apiextensions.CustomResource(
            "lws",
            api_version="leaderworkerset.x-k8s.io/v1",
            kind="LeaderWorkerSet",
            metadata={
                "name": "qwen-worker-0",
                "namespace": "models",
                "labels": {"b": "1", "a": "2"},
            },
            spec={
                "replicas": 1,
                "leaderWorkerTemplate": {"size": 2, "snake_case": True, "ratio": 0.5},
                "args": ["--tp", "8"],
                "none": None,
                "empty": {},
            },
        )
        """
    )
    (resource,) = recording.resources
    assert resource.urn_name == "lws"
    assert resource.type_token == "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    assert resource.manifest == {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": "qwen-worker-0",
            "namespace": "models",
            "labels": {"a": "2", "b": "1"},
        },
        "spec": {
            "args": ["--tp", "8"],
            "empty": {},
            "leaderWorkerTemplate": {"ratio": 0.5, "size": 2, "snake_case": True},
            "none": None,
            "replicas": 1,
        },
    }
    assert list(resource.manifest) == ["apiVersion", "kind", "metadata", "spec"]
    assert list(resource.manifest["metadata"]["labels"]) == ["a", "b"]
    assert type(resource.manifest["spec"]["replicas"]) is int
    assert messages(recording) == ()
    assert recording.plans == ()


def test_typed_resources_use_kubernetes_names(run: Run) -> None:
    found = manifests(
        run(
            """
            labels = {"app_name": "web"}
            config = k8s.core.v1.ConfigMap(
                "settings", metadata={"name": "settings"}, data={"snake_key": "1"})
            k8s.apps.v1.Deployment(
                "web",
                metadata=k8s.meta.v1.ObjectMetaArgs(name="web", namespace="default"),
                spec=k8s.apps.v1.DeploymentSpecArgs(
                    replicas=2,
                    min_ready_seconds=3,
                    selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
                    template={
                        "metadata": {"labels": labels},
                        "spec": {
                            "service_account_name": "web",
                            "containers": [{
                                "name": "web",
                                "image": pulumi.Output.concat("repo/", config.metadata.name),
                                "env_from": [{"config_map_ref": {"name": config.metadata["name"]}}],
                                "env": [{"name": "KEY", "value": config.data["snake_key"]},
                                        {"name": "APPLY",
                                         "value": config.metadata.apply(lambda m: m.name)}],
                            }],
                        },
                    },
                ),
            )
            """
        )
    )
    assert found[0] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"snake_key": "1"},
    }
    pod = found[1]["spec"]["template"]["spec"]
    assert found[1]["apiVersion"] == "apps/v1"
    assert found[1]["spec"]["minReadySeconds"] == 3
    assert found[1]["spec"]["selector"] == {"matchLabels": {"app_name": "web"}}
    assert pod["serviceAccountName"] == "web"
    assert pod["containers"] == [
        {
            "env": [{"name": "KEY", "value": "1"}, {"name": "APPLY", "value": "settings"}],
            "envFrom": [{"configMapRef": {"name": "settings"}}],
            "image": "repo/settings",
            "name": "web",
        }
    ]


def test_components_nest_and_are_not_objects(run: Run) -> None:
    recording = run(
        """
        class Inner(pulumi.ComponentResource):
            def __init__(self, name, opts=None):
                super().__init__("my:index:Inner", name, {}, opts)
                k8s.core.v1.ConfigMap(name, metadata={"name": name},
                                      opts=pulumi.ResourceOptions(parent=self))
                self.register_outputs({})

        class Outer(pulumi.ComponentResource):
            def __init__(self, name, opts=None):
                super().__init__("my:index:Outer", name, {"size": 1}, opts)
                self.inner = Inner(f"{name}-inner", pulumi.ResourceOptions(parent=self))
                self.register_outputs({"inner": self.inner})

        provider = k8s.Provider("cluster", kubeconfig="{}")
        outer = Outer("one", pulumi.ResourceOptions(provider=provider))
        Outer("two", pulumi.ResourceOptions(depends_on=[outer]))
        pulumi.export("outer", outer)
        """
    )
    assert [resource.urn_name for resource in recording.resources] == ["one-inner", "two-inner"]
    assert messages(recording) == ()


def test_order_is_that_of_the_constructors(run: Run) -> None:
    recording = run(
        """
        first = k8s.core.v1.ConfigMap("first", metadata={"name": "first"})
        second = k8s.core.v1.ConfigMap("second", metadata={"name": "second"},
                                       data={"of": first.metadata.name},
                                       opts=pulumi.ResourceOptions(depends_on=[first]))
        k8s.core.v1.ConfigMap("third", metadata={"name": "third"})
        """
    )
    assert [resource.urn_name for resource in recording.resources] == ["first", "second", "third"]


def test_patches_are_never_listed(run: Run) -> None:
    recording = run(
        """
        k8s.apps.v1.DeploymentPatch("a", metadata={"name": "a"}, spec={"replicas": 2})
        k8s.apiextensions.CustomResourcePatch(
            "b", api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet",
            metadata={"name": "b"}, spec={"replicas": 2})
        k8s.apiextensions.CustomResource(
            "c", api_version="gateway.envoyproxy.io/v1alpha1", kind="EnvoyPatch",
            metadata={"name": "c"}, spec={})
        k8s.core.v1.ConfigMapList("d", items=[{"metadata": {"name": "x"}, "data": {"a": "b"}}])
        """
    )
    assert [(resource.urn_name, resource.manifest["kind"]) for resource in recording.resources] == [
        ("c", "EnvoyPatch"),
        ("d", "ConfigMapList"),
    ]
    assert recording.resources[1].manifest["metadata"] == {}


def test_transformations_and_transforms_apply(run: Run) -> None:
    recording = run(
        """
        def label(args):
            if args.type_ == "kubernetes:core/v1:ConfigMap":
                return pulumi.ResourceTransformationResult(
                    props={**args.props, "data": {"by": "transformation"}}, opts=args.opts)

        def own(args):
            if not args.custom:
                return None
            return pulumi.ResourceTransformResult(
                props={**args.props, "data": {**args.props["data"], "own": "transform"}},
                opts=args.opts)

        async def everywhere(args):
            if not args.type_.startswith("kubernetes:core"):
                return None
            data = args.props["data"]
            props = {**args.props, "data": {**data, "stack": ",".join(sorted(data))}}
            return pulumi.ResourceTransformResult(props=props, opts=args.opts)

        class Group(pulumi.ComponentResource):
            pass

        pulumi.runtime.register_stack_transformation(label)
        pulumi.runtime.register_stack_transform(everywhere)
        group = Group("my:index:Group", "group", {}, pulumi.ResourceOptions(transforms=[own]))
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"},
                              opts=pulumi.ResourceOptions(parent=group))
        """
    )
    assert manifests(recording)[0]["data"] == {
        "by": "transformation",
        "own": "transform",
        "stack": "by,own",
    }


def test_hooks_are_accepted(run: Run) -> None:
    recording = run(
        """
        hook = pulumi.ResourceHook("wait", lambda args: None)
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, opts=pulumi.ResourceOptions(
            hooks=pulumi.ResourceHookBinding(before_update=[hook])))
        """
    )
    assert len(recording.resources) == 1


def test_other_providers_are_left_out(run: Run) -> None:
    recording = run(
        """
        class Bucket(pulumi.CustomResource):
            arn: pulumi.Output[str]
            def __init__(self, name):
                super().__init__("aws:s3/bucket:Bucket", name, {"bucket": "models", "arn": None})

        bucket = Bucket("models")
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"},
                              data={"arn": bucket.arn, "bucket": bucket.bucket})
        """
    )
    assert [found["data"] for found in manifests(recording)] == [
        {"arn": "<unknown>", "bucket": "models"}
    ]
    assert messages(recording) == ()


def test_asynchronous_programs_finish(run: Run) -> None:
    recording = run(
        """
        import asyncio

        async def later():
            await asyncio.sleep(0.01)
            return await asyncio.to_thread(lambda: "thread")

        k8s.core.v1.ConfigMap("a", metadata={"name": "a"},
                              data={"x": pulumi.Output.from_input(later())})
        pulumi.Output.from_input("made").apply(
            lambda name: k8s.core.v1.ConfigMap("b", metadata={"name": name}))
        """
    )
    assert [found["metadata"]["name"] for found in manifests(recording)] == ["a", "made"]
    assert manifests(recording)[0]["data"] == {"x": "thread"}


@pytest.mark.skipif(not hasattr(pulumi, "run"), reason="not in the oldest SDK")
def test_an_asynchronous_main_runs(run: Run) -> None:
    recording = run(
        """
        async def main():
            made = k8s.core.v1.ConfigMap("a", metadata={"name": "a"})
            return {"name": made.metadata.name}

        pulumi.run(main)
        """
    )
    assert [found["metadata"]["name"] for found in manifests(recording)] == ["a"]


def test_hundreds_of_objects_take_seconds(run: Run) -> None:
    started = time.monotonic()
    recording = run(
        """
        for index in range(300):
            k8s.apiextensions.CustomResource(
                f"lws-{index}", api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet",
                metadata={"name": f"lws-{index}"}, spec={"replicas": index})
        """
    )
    assert [found["spec"]["replicas"] for found in manifests(recording)] == list(range(300))
    assert time.monotonic() - started < 30
