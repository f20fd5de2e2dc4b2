from collections.abc import Callable
from e2e.engine.project import ENGINE, Project
from e2e.harness import Cluster
from fusioninfer_pulumi import load, plan_service, render
from e2e.engine.test_adoption import identities, service

def test_a_lost_state_is_recovered(
    cluster: Cluster, namespace: str, project: Callable[..., Project]
) -> None:
    cluster.add_nodes(4, gpus=8)
    lost, found = project("service"), project("service")
    lost.write(service(namespace))
    lost.up().assert_fine()
    (args,) = load(service(namespace))
    objects = list(render(plan_service(args)))
    before = identities(cluster, namespace, objects)

    found.write(service(namespace))
    told = found.up()
    print("PLAIN", told.status, told.text[-3000:])
    told = found.up(PULUMI_K8S_UPSERT_EXISTING_OBJECTS="true")
    print("UPSERT", told.status, told.text[-3000:])
    print("SAME", identities(cluster, namespace, objects) == before)
    print("PREVIEW", found.preview())
    found.write(service(namespace, image="registry.example/engine:2"))
    told = found.up()
    print("CHANGE", told.status, told.text[-3000:])
    told = found.up(PULUMI_K8S_ENABLE_PATCH_FORCE="true")
    print("FORCE", told.status, told.text[-3000:])
    print("PREVIEW", found.preview())
    assert 0
