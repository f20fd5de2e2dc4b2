"""The tool that reads the endpoint pickers' registered plugins, and its tables."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
MODULE = "sigs.k8s.io/gateway-api-inference-extension"
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")

SOURCES = {
    "cmd/epp/runner/runner.go": """package runner
import (
	"flag"
	"MODULE/pkg/epp/loader"
	"MODULE/pkg/epp/plugin"
	"MODULE/pkg/epp/scorer"
)
var port = flag.Int("grpc-port", 9002, "The port")
func register() {
	plugin.Register(scorer.QueueType, scorer.QueueFactory)
	plugin.Register(scorer.Prefix+"-picker", plugin.StabilityAlpha, scorer.PickerFactory)
	plugin.RegisterDeprecated(scorer.OldType, scorer.OldFactory, "v1", "v2", scorer.QueueType)
	plugin.Register("policy", scorer.NewPolicy)
}
""",
    "pkg/epp/server/options.go": """package server
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Pool, "pool-name", "", "The pool")
	fs.StringVar(&o.Metric, "old-metric", "", "Rejected")
}
var deprecatedMetricFlags = map[string]struct{}{"old-metric": {}}
""",
    "pkg/epp/plugin/plugin.go": "package plugin\n",
    "pkg/epp/loader/loader.go": "package loader\n",
    "pkg/epp/scorer/queue.go": """package scorer
const (
	Prefix = "max"
	QueueType, OldType = "queue-scorer", "old-scorer"
)
func QueueFactory(name string) {}
""",
}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("picker_plugins", TOOLS / "picker_plugins.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "picker_plugins", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@needs_go
def test_release_is_read_by_syntax(tool: Any, tmp_path: Path) -> None:
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text.replace("MODULE", MODULE))
    assert tool.table("gaie-1.2", tool.read("gaie-1.2", str(tmp_path))) == {
        "source": f"{MODULE}@v1.2.1",
        "flags": ["grpc-port", "kubeconfig", "pool-name", *tool.notes()["logFlags"]],
        "plugins": ["max-picker", "old-scorer", "policy", "queue-scorer"],
    }


def test_committed_tables_have_the_tools_format(tool: Any) -> None:
    files = {path.stem: path for path in tool.TABLES.glob("*.json")}
    assert files.keys() == tool.notes()["releases"].keys()
    for family, path in files.items():
        text = path.read_text(encoding="utf-8")
        kept = json.loads(text)
        release = tool.notes()["releases"][family]
        assert kept["source"] == f"{release['module']}@{release['version']}"
        assert text == tool.table_text(kept)
