"""Which size of how many."""

from pathlib import Path

import msgspec
import pytest

from busbw import records
from busbw.progress import place_in_sweep

SETTINGS = records.read(Path(__file__).resolve().parents[1] / "golden" / "records.jsonl").header.settings


@pytest.mark.parametrize(
    ("changes", "requested_bytes", "place"),
    [
        ({"min_bytes": 8, "max_bytes": 64, "step_factor": 2}, 8, (1, 4)),
        ({"min_bytes": 8, "max_bytes": 64, "step_factor": 2}, 64, (4, 4)),
        ({"min_bytes": 8, "max_bytes": 63, "step_factor": 2}, 32, (3, 3)),
        ({"min_bytes": 8, "max_bytes": 8, "step_factor": 2}, 8, (1, 1)),
        ({"min_bytes": 10, "max_bytes": 25, "step_bytes": 5, "step_factor": None}, 20, (3, 4)),
        ({"sizes_bytes": [7, 3, 9], "step_factor": None}, 3, (2, 3)),
    ],
)
def test_place_in_sweep(changes: dict[str, object], requested_bytes: int, place: tuple[int, int]) -> None:
    assert place_in_sweep(msgspec.structs.replace(SETTINGS, **changes), requested_bytes) == place
