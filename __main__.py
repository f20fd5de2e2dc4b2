"""A Pulumi project that deploys YAML manifests, and the plugin of the package `fusioninfer`.

As a project: set the files with `pulumi config set manifests a.yaml,b.yaml`. Every InferenceService
in them is deployed, and its endpoint and status are exported under its name.
As a plugin (PulumiPlugin.yaml): `pulumi package add` with this folder or its git address.
"""

import pulumi

from fusioninfer_pulumi import InferenceService, load


def deploy() -> None:
    """Deploy the manifests."""
    for path in pulumi.Config().require("manifests").split(","):
        for args in load(path.strip()):
            service = InferenceService(str(args.name), args)
            pulumi.export(str(args.name), {"endpoint": service.endpoint, "status": service.status})


if pulumi.runtime.get_root_resource() is not None:
    deploy()
else:  # without a stack, Pulumi starts this folder as a plugin
    from fusioninfer_pulumi.provider.server import main

    main()
