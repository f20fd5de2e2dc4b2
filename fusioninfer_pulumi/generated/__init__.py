"""Files that tools write from their source, never edited by hand.

| File | Written by | From |
|---|---|---|
| `dicts.py` | `make regenerate` | the models in `api` |
| `docstrings.json` | `make regenerate` | the models in `api` |
| `stubs/` | `make regenerate` | the modules of `api` |
| `pulumi-package.json` | `make regenerate` | the models in `api`, the components |
| `vllm_arguments.jsonl`, `sglang_arguments.jsonl` | `tools/engine_arguments.py` | the engines |
| `engine_metrics.json` | `tools/engine_metrics.py` | the wheels of each release |
| `dashboards/` | `tools/dashboards.py` | Grafana's typed builders |
| `kubernetes/` | `make schemas` | the Go modules that `e2e/tools` pins |
"""

from __future__ import annotations

from pathlib import Path

#: The directory of these files.
DIRECTORY = Path(__file__).parent
