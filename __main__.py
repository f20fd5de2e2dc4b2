"""A ready Pulumi project for whoever has only YAML.

`pulumi config set manifests a.yaml,b.yaml` names the manifests; every InferenceService in them is
deployed, and its endpoint and status are exported under its name.
"""

import pulumi

from fusioninfer_pulumi import InferenceService, load

for path in pulumi.Config().require("manifests").split(","):
    for args in load(path.strip()):
        service = InferenceService(str(args.name), args)
        pulumi.export(str(args.name), {"endpoint": service.endpoint, "status": service.status})
