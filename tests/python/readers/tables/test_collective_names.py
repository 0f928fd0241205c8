"""Names of collectives in the text of logs and documents."""

from pathlib import Path

import pytest

from busbw.exporters import EXPORTERS
from busbw.readers import read
from busbw.readers.tables.collectives import single_collective_in

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "logs"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("16x H100 + all2all", "alltoall"),
        (r"all\_reduce", "all_reduce"),
        ("All\u2011Reduce, 8 GPUs", "all_reduce"),
        ("Reduce\u2013Scatter", "reduce_scatter"),
        ("all\u00adgather", "all_gather"),
        ("Reduce to rank 0", "reduce"),
        ("all_reduce and all_gather", None),
    ],
)
def test_a_name_in_a_text(text: str, name: str | None) -> None:
    assert single_collective_in(text) == name


def test_a_markdown_export_keeps_its_collective(tmp_path: Path) -> None:
    log = read(GOLDEN / "h200_x4_sweep_c1.txt")
    with (tmp_path / "log.md").open("wb") as file:
        EXPORTERS["markdown"].write([log], file)
    assert {row.collective for row in read(tmp_path / "log.md").rows} == {"all_reduce"}
