"""Writes the outcome of each seed as a line of JSON, with the package that PYTHONPATH holds.

`python -m drawn_services FIRST COUNT`; the first line is the package's own path.
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import asdict

import fusioninfer_pulumi
from drawn_services import draw_service
from drawn_services.outcome import Outcome, outcome


def main() -> None:
    """Renders and plans the services of some seeds."""
    first, count = map(int, sys.argv[1:])
    _write(str(fusioninfer_pulumi.__file__))
    for seed in range(first, first + count):
        documents = draw_service(seed).documents
        try:
            result = outcome(documents)
        except Exception:  # noqa: BLE001  # that a version fails is an outcome, too
            result = Outcome(-1, "", [traceback.format_exc(limit=-2)], [])
        _write(asdict(result))


def _write(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
