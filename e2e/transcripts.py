"""Record live objects with what the library said about them, for the fast tests.

`python -m pytest e2e/test_status.py --write-transcripts` writes `tests/fixtures/status/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.harness import Object
from e2e.inputs import ROOT
from e2e.live import PATIENCE, LiveService
from fusioninfer_pulumi.component.status import ServiceStatus, service_status

FOLDER = ROOT / "tests" / "fixtures" / "status"


class Life:
    """A service's life, stage by stage."""

    def __init__(self, service: LiveService) -> None:
        self.service = service
        self.stages: list[Object] = []

    def stage(
        self,
        name: str,
        active: str,
        roles: Mapping[str, str],
        *,
        failures: Mapping[str, str] | None = None,
        stored: list[Object] | None = None,
    ) -> ServiceStatus:
        """Wait until the library says what a person would say, and record it.

        Args:
            name: What has happened.
            active: The condition Active and its reason, as in `True Partial`.
            roles: `phase ready/desired` by role.
            failures: What pods show to have failed, by LeaderWorkerSet.
            stored: Objects to read instead of the live ones.

        Returns:
            The status.
        """
        seen: Object = {}

        def look() -> bool:
            seen.update(self._look(failures, stored))
            output = seen["status"]
            condition = next(c for c in output["conditions"] if c["type"] == "Active")
            phases = {
                role: f"{each['phase']} {each['readyReplicas']}/{each['desiredReplicas']}"
                for role, each in output["components"].items()
            }
            seen["said"] = (f"{condition['status']} {condition['reason']}", phases)
            return bool(seen["said"] == (active, dict(roles)))

        self.service.cluster.wait(look, PATIENCE, lambda: (name, seen))
        del seen["said"]
        self.stages.append({"stage": name, **seen})
        status: ServiceStatus = seen["status"]
        return status

    def _look(self, failures: Mapping[str, str] | None, stored: list[Object] | None) -> Object:
        if stored is None:
            lws, group = self.service.lws(), self.service.pod_group()
        else:
            group = next((each for each in stored if each["kind"] == "PodGroup"), None)
            kind = "LeaderWorkerSet"
            lws = {e["metadata"]["name"]: e for e in stored if e["kind"] == kind}
        plan = self.service.plan
        shown: Object = {
            "service": self.service.manifest,
            "sets": {name: _kept(each) for name, each in lws.items()},
            "podGroup": _kept(group),
        }
        if failures:
            shown["failures"] = dict(failures)
        routing = self.service.routing()
        if routing:
            shown["routing"] = {name: _kept(each) for name, each in routing.items()}
        status = service_status(plan, {**lws, plan.service: group, **routing}, failures)
        # What is cut off must not matter.
        live = {**shown["sets"], plan.service: shown["podGroup"], **shown.get("routing", {})}
        assert status == service_status(plan, live, failures)
        return {**shown, "status": status}

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        comment = "# Recorded on the real components by e2e/test_status.py --write-transcripts\n"
        text = yaml.safe_dump(
            self.stages, sort_keys=False, width=100, allow_unicode=True, default_flow_style=None
        )
        path.write_text(comment + text, encoding="utf-8")


def _kept(each: Object | None) -> Object | None:
    if each is None:
        return None
    metadata = {
        key: each["metadata"][key]
        for key in ("name", "generation", "deletionTimestamp")
        if key in each["metadata"]
    }
    kept: dict[str, Any] = {"metadata": metadata}
    return {**kept, "status": each["status"]} if "status" in each else kept
