"""Options that import existing objects reach all objects; e2e/engine tests the import itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest

from fusioninfer_pulumi import InferenceService, InferenceServiceArgs

ROOT = Path(__file__).parents[2]
Story = Callable[[int], InferenceServiceArgs]


def existing(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
    if not args.type_.startswith("kubernetes:"):
        return None
    metadata: Any = args.props["metadata"]
    args.opts.import_ = f"{metadata['namespace']}/{metadata['name']}"
    return pulumi.ResourceTransformationResult(args.props, args.opts)


@pytest.mark.parametrize("number", [1, 4])
def test_transformation_can_import_every_object(engine: Any, story: Story, number: int) -> None:
    options = pulumi.ResourceOptions(transformations=[existing])
    done = engine.run(lambda: InferenceService("app", story(number), options) and None)
    assert done.children
    for child in done.children:
        metadata = child.inputs["metadata"]
        assert child.request.importId == f"{metadata['namespace']}/{metadata['name']}"
    assert not done.component.request.importId
