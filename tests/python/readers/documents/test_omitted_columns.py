"""Documents without operators or roots: their absence says nothing about the collective."""

import json
from pathlib import Path

import pytest

from busbw.readers import read

FIGURES = {"size": 1 << 30, "time": 5000.0, "algBw": 214.748}


@pytest.mark.parametrize(
    ("name", "collective", "factor", "fields"),
    [
        ("Broadcast", "broadcast", 1, {"redop": "none", "type": "float"}),
        ("Reduce", "reduce", 1, {"redop": "sum", "type": "float"}),
        ("allreduce", "all_reduce", 1.75, {}),
        ("reduce_scatter", "reduce_scatter", 0.875, {}),
    ],
)
def test_a_stated_collective_is_not_contradicted(
    tmp_path: Path, name: str, collective: str, factor: float, fields: dict[str, str]
) -> None:
    row = FIGURES | {"name": name, "ranks": 8, "busBw": round(factor * 214.748, 3)} | fields
    as_csv = ",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n"
    for text in (json.dumps(row) + "\n", as_csv):
        (tmp_path / "log").write_text(text)
        (table,) = read(tmp_path / "log").tables
        assert (table.collective, table.ranks, table.warnings) == (collective, 8, ())


def test_a_column_of_operators_still_excludes_collectives(tmp_path: Path) -> None:
    header = "name,ranks,size,type,redop,root,time,algbw,busbw\n"
    (tmp_path / "log").write_text(header + "AllReduce,8,1073741824,float,none,-1,5000.0,214.75,375.81\n")
    (table,) = read(tmp_path / "log").tables
    assert "check if two logs are mixed" in table.warnings[0]
