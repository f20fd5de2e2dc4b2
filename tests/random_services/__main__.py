"""Print what `render` and `plan` output for each seed's services, one line of JSON per seed.

`python -m random_services FIRST COUNT`; the first line is the path of the imported package.
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import asdict

import fusioninfer_pulumi
from random_services import generate_service
from random_services.outcome import Outcome, outcome


def main() -> None:
    """Render and plan the services of COUNT seeds, starting with FIRST."""
    first, count = map(int, sys.argv[1:])
    _write(str(fusioninfer_pulumi.__file__))
    for seed in range(first, first + count):
        documents = generate_service(seed).documents
        try:
            result = outcome(documents)
        except Exception:  # noqa: BLE001  # compared like other outcomes
            result = Outcome(-1, "", [traceback.format_exc(limit=-2)], [])
        _write(asdict(result))


def _write(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
