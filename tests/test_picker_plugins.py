"""The tool that reads what endpoint pickers register, and the tables that it wrote."""

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
	loader.RegisterFeatureGate(scorer.Gate)
	plugin.Register(scorer.QueueType, scorer.QueueFactory)
	plugin.Register(scorer.Prefix+"-picker", plugin.StabilityAlpha, scorer.PickerFactory)
	plugin.RegisterDeprecated(scorer.OldType, scorer.OldFactory, "v1", "v2", scorer.QueueType)
	plugin.Register("policy", scorer.NewPolicy)
}
""",
    "pkg/epp/server/options.go": """package server
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Pool, "pool-name", "", "The pool")
	fs.StringVar(&o.Metric, "old-metric", "", "Refused")
}
var deprecatedMetricFlags = map[string]struct{}{"old-metric": {}}
""",
    "pkg/epp/plugin/plugin.go": "package plugin\n",
    "pkg/epp/loader/loader.go": "package loader\n",
    "pkg/epp/scorer/queue.go": """package scorer
import "encoding/json"
const (
	Gate = "flowControl"
	Prefix = "max"
	QueueType, OldType = "queue-scorer", "old-scorer"
)
type Common struct { Inner int `json:"inner"`; skipped int }
type parameters struct {
	Common
	Threshold int `json:"threshold,omitempty"`
	Left int `json:"-"`
	PlainName bool
}
type Queue struct{ Base }
type Base struct{}
func (b *Base) Score() {}
func defaults() parameters { return parameters{Threshold: 3} }
func QueueFactory(name string, raw json.RawMessage, _ Handle) (Plugin, error) {
	return parse(name, raw)
}
func parse(name string, given json.RawMessage) (*Queue, error) {
	params := defaults()
	if err := json.Unmarshal(given, &params); err != nil { return nil, err }
	return &Queue{}, nil
}
type Picker struct{}
func (p Picker) Pick() {}
func (p Picker) WithName(name string) Picker { return p }
var PickerFactory = makePicker(1)
func makePicker(n int) func(string, *json.Decoder, Handle) (Plugin, error) {
	return func(name string, decoder *json.Decoder, _ Handle) (Plugin, error) {
		var params struct { KVUsage int }
		return Picker{}.WithName(name), decoder.Decode(&params)
	}
}
func OldFactory(name string, _ json.RawMessage, _ Handle) (Plugin, error) { return &Base{}, nil }
type policy struct{}
func (p *policy) Pick() {}
func (p *policy) NewState() {}
func NewPolicy(name string, _ json.RawMessage, _ Handle) (Plugin, error) { return &policy{}, nil }
""",
    "apix/config/v1alpha1/types.go": """package v1alpha1
type EndpointPickerConfig struct {
	metav1.TypeMeta `json:",inline"`
	Plugins []string `json:"plugins"`
	Flow *Flow `json:"flowControl,omitempty"`
}
type Flow struct { Max int `json:"maxBytes"` }
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


@needs_go
def test_a_release_is_read_by_its_syntax(tool: Any, tmp_path: Path) -> None:
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text.replace("MODULE", MODULE))
    assert tool.table("gaie-1.2", tool.read("gaie-1.2", str(tmp_path))) == {
        "source": f"{MODULE}@v1.2.1",
        "featureGates": ["flowControl"],
        "sections": {"plugins": None, "flowControl": ["maxBytes"]},
        "flags": ["grpc-port", "kubeconfig", "pool-name", *tool.notes()["logFlags"]],
        "plugins": {
            "max-picker": {"kind": "picker", "parameters": None, "alpha": True},
            "old-scorer": {
                "kind": "scorer",
                "parameters": [],
                "removal": ["v1", "v2", "queue-scorer"],
            },
            "policy": {"kind": "other", "parameters": []},
            "queue-scorer": {"kind": "scorer", "parameters": ["inner", "plainName", "threshold"]},
        },
    }


def test_the_committed_tables_are_in_the_form_that_the_tool_writes(tool: Any) -> None:
    files = {path.stem: path for path in tool.TABLES.glob("*.json")}
    assert files.keys() == tool.notes()["releases"].keys()
    for family, path in files.items():
        text = path.read_text(encoding="utf-8")
        held = json.loads(text)
        release = tool.notes()["releases"][family]
        assert held["source"] == f"{release['module']}@{release['version']}"
        assert text == tool.table_text(held)
