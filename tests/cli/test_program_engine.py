"""What only the engine can expand is a warning each, and the program goes on."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.projects import messages

from fusioninfer_pulumi.cli.program import Recording, run_program

Run = Callable[[str], Recording]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(program: str) -> Recording:
        (tmp_path / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
        head = "import pulumi\nimport pulumi_kubernetes as k8s\n"
        (tmp_path / "__main__.py").write_text(head + textwrap.dedent(program))
        return run_program(tmp_path)

    return call


def names(recording: Recording) -> list[str]:
    return [resource.manifest["metadata"]["name"] for resource in recording.resources]


def test_stack_reference_is_unknown(run: Run) -> None:
    recording = run(
        """
        network = pulumi.StackReference("acme/network/prod")
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data={
            "get": network.get_output("vpc"),
            "require": network.require_output("vpc"),
            "item": network.outputs["vpc"],
            "text": pulumi.Output.concat("id-", network.get_output("vpc")),
        })
        """
    )
    assert set(recording.resources[0].manifest["data"].values()) == {"<unknown>"}
    assert messages(recording) == (
        'stack reference "acme/network/prod": its outputs are unknown here',
    )


def test_function_results_are_unknown(run: Run) -> None:
    recording = run(
        """
        def zones():
            return pulumi.runtime.invoke_output("aws:index:getZones", {"all": True})

        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data={
            "output": zones()["names"],
            "apply": zones().apply(lambda found: found["names"][0]),
        })
        """
    )
    assert recording.resources[0].manifest["data"] == {"apply": "<unknown>", "output": "<unknown>"}
    assert messages(recording) == ("function aws:index:getZones: only its provider can answer",)


def test_plain_functions_let_the_program_go_on(run: Run) -> None:
    recording = run(
        """
        @pulumi.output_type
        class Result:
            def __init__(__self__, account=None):
                pulumi.set(__self__, "account", account)

            @property
            @pulumi.getter
            def account(self) -> str:
                return pulumi.get(self, "account")

        found = pulumi.runtime.invoke("aws:index:getCaller", {}, typ=Result).value
        other = pulumi.runtime.invoke("aws:index:getOther", {}).value
        k8s.core.v1.ConfigMap("a", metadata={"name": f"a-{pulumi.get(found, 'account')}-{other}"})
        """
    )
    assert names(recording) == ["a-None-{}"]
    assert messages(recording) == (
        "function aws:index:getCaller: only its provider can answer",
        "function aws:index:getOther: only its provider can answer",
    )


def test_remote_components_and_releases(run: Run) -> None:
    recording = run(
        """
        chart = k8s.helm.v4.Chart("nginx", chart="nginx")
        k8s.yaml.v2.ConfigGroup("group", objs=[{"apiVersion": "v1", "kind": "Namespace"}])
        k8s.kustomize.v2.Directory("kustom", directory=".")
        release = k8s.helm.v3.Release("redis", chart="redis", name="redis")
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data={
            "status": release.status.namespace, "resources": chart.resources.apply(str)},
            opts=pulumi.ResourceOptions(depends_on=[chart, release]))
        """
    )
    assert names(recording) == ["a"]
    assert recording.resources[0].manifest["data"] == {
        "resources": "<unknown>",
        "status": "<unknown>",
    }
    tail = ": only the Pulumi engine can expand it; its objects are missing here"
    assert sorted(messages(recording)) == [
        f'kubernetes:helm.sh/v3:Release "redis"{tail}',
        f'kubernetes:helm.sh/v4:Chart "nginx"{tail}',
        f'kubernetes:kustomize/v2:Directory "kustom"{tail}',
        f'kubernetes:yaml/v2:ConfigGroup "group"{tail}',
    ]


def test_first_generation_helm_and_kustomize(run: Run) -> None:
    recording = run(
        """
        from pulumi_kubernetes.helm.v3 import Chart, ChartOpts, FetchOpts
        from pulumi_kubernetes.kustomize import Directory
        Chart("nginx", ChartOpts(chart="nginx", fetch_opts=FetchOpts(repo="https://x.invalid")))
        Directory("here", directory=".")
        """
    )
    assert recording.resources == ()
    assert sorted(messages(recording)) == [
        "function kubernetes:helm:template: only its provider can answer",
        "function kubernetes:kustomize:directory: only its provider can answer",
    ]


def test_first_generation_yaml_is_expanded(run: Run, tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {day: 2024-01-01}\n"
        "---\napiVersion: x.io/v1\nkind: Thing\nmetadata: {name: two}\nspec: {size: 2}\n"
    )
    recording = run('k8s.yaml.ConfigFile("file", "objects.yaml")')
    assert sorted(names(recording)) == ["one", "two"]
    assert messages(recording) == ()


def test_reads_are_unknown(run: Run) -> None:
    recording = run(
        """
        found = k8s.core.v1.Service.get("existing", "default/web")
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data={
            "ip": found.spec.cluster_ip, "name": found.metadata.name})
        """
    )
    assert names(recording) == ["a"]
    assert set(recording.resources[0].manifest["data"].values()) == {"<unknown>"}
    assert messages(recording) == (
        'kubernetes:core/v1:Service "existing" is read from the cluster: it is unknown here',
    )


def test_dynamic_providers_do_not_run(run: Run) -> None:
    recording = run(
        """
        from pulumi.dynamic import CreateResult, Resource, ResourceProvider

        class Provider(ResourceProvider):
            def create(self, props):
                raise AssertionError("must not run")

        class Made(Resource):
            token: pulumi.Output[str]

            def __init__(self, name):
                super().__init__(Provider(), name, {"size": 1, "token": None})

        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data={"token": Made("made").token})
        """
    )
    assert recording.resources[0].manifest["data"] == {"token": "<unknown>"}
    (warning,) = messages(recording)
    assert 'dynamic:Resource "made"' in warning


def test_warnings_of_the_program(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    recording = run(
        """
        made = k8s.core.v1.ConfigMap("a", metadata={"name": "a"})
        pulumi.log.warn("twice")
        pulumi.log.warn("twice")
        pulumi.log.warn("about it,\\nin two lines", made)
        pulumi.log.error("bad")
        pulumi.log.info("progress")
        pulumi.log.debug("noise")
        """
    )
    assert messages(recording) == ("twice", "error: bad", "about it, in two lines")
    assert capfd.readouterr() == ("", "progress\n")


def test_namespace_of_a_provider_is_pointed_out(run: Run) -> None:
    recording = run(
        """
        provider = k8s.Provider("models", namespace="models")
        opts = pulumi.ResourceOptions(provider=provider)
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, opts=opts)
        k8s.core.v1.ConfigMap("b", metadata={"name": "b", "namespace": "b"}, opts=opts)
        k8s.core.v1.Namespace("c", metadata={"name": "c"}, opts=opts)
        """
    )
    assert len(recording.resources) == 3
    (warning,) = messages(recording)
    assert warning == (
        'provider "models" puts objects without metadata.namespace in namespace models; '
        "it is not written into them here"
    )


def test_methods_and_existence_are_unknown(run: Run) -> None:
    recording = run(
        """
        chart = k8s.helm.v4.Chart("nginx", chart="nginx")
        called = pulumi.runtime.call("kubernetes:index:Chart/value", {"__self__": chart}, chart)
        data = {"called": called.apply(str)}
        if hasattr(pulumi.runtime, "exists_resource"):
            found = pulumi.runtime.exists_resource(
                None, "kubernetes:core/v1:Secret", "default/x", {}, pulumi.ResourceOptions())
            data["found"] = found.apply(str)
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data=data)
        """
    )
    assert set(recording.resources[0].manifest["data"].values()) == {"<unknown>"}
    assert any("Chart/value: only its provider" in text for text in messages(recording))


def test_components_hand_resources_around(run: Run) -> None:
    recording = run(
        """
        class Group(pulumi.ComponentResource):
            member: pulumi.Output[k8s.core.v1.ConfigMap]

            def __init__(self, name, member):
                super().__init__("my:index:Group", name, {"member": member})
                self.register_outputs({"member": member})

        member = k8s.core.v1.ConfigMap("a", metadata={"name": "a"})
        group = Group("group", member)
        k8s.core.v1.ConfigMap("b", metadata={"name": "b"}, data={
            "of": group.member.apply(lambda found: found.metadata["name"])})
        """
    )
    assert messages(recording) == ()
    assert [resource.manifest["metadata"]["name"] for resource in recording.resources] == ["a", "b"]
    assert recording.resources[1].manifest["data"] == {"of": "a"}


def test_invoke_transforms_are_accepted(run: Run) -> None:
    recording = run(
        """
        pulumi.runtime.register_invoke_transform(lambda args: None)
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"})
        """
    )
    assert names(recording) == ["a"]
