"""Reference figures: every file follows the schema and its own arithmetic."""

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import jsonschema
import msgspec
import pytest

from busbw import readers, system
from busbw.cli.main import main
from busbw.errors import UsageError
from busbw.reference import find, references
from busbw.schema import schema_text

FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1,
    "reduce": lambda n: 1,
    "sendrecv": lambda n: 1,
}


@pytest.mark.parametrize("name", references())
def test_busbw_follows_from_size_and_time(name: str) -> None:
    reference = references()[name]
    for sweep in reference.sweeps:
        for point in sweep.points:
            if point.time_us is None or point.size_bytes is None or sweep.collective == "hypercube":
                continue
            expected = point.size_bytes / point.time_us / 1e3 * FACTORS[sweep.collective](reference.ranks)
            # Printed precision: time to four digits, busbw to two decimals.
            assert point.busbw_gbps == pytest.approx(expected, rel=0.002, abs=0.011), (name, point)


@pytest.mark.parametrize("name", references())
def test_a_reference_says_what_it_is_of(name: str) -> None:
    reference = references()[name]
    for text in (reference.title, reference.gpu, reference.links, reference.source, reference.method):
        assert text.strip()
    assert reference.system in system.systems()
    assert reference.ranks % reference.nodes == 0
    for sweep in reference.sweeps:
        sizes = [point.size_bytes for point in sweep.points if point.size_bytes]
        assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("name", references())
def test_the_command_shows_each(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refs", name]) == 0
    shown = capsys.readouterr().out
    assert references()[name].source in shown
    assert references()[name].method in shown


def test_the_command_lists_all_within_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["refs"]) == 0
    listed = capsys.readouterr().out
    assert [name for name in references() if name not in listed] == []
    assert max(len(line) for line in listed.splitlines()) <= 80


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refs", "nowhere"]) == 2
    assert (
        'no reference "nowhere"; use a name from `busbw refs`, a log, a run or a .toml file' in capsys.readouterr().err
    )


GOOD = """
title = "two ranks"
gpu = "NVIDIA X"
ranks = 2
nodes = 1
links = "PCIe"
source = "https://example.org"
date = "2026-11"
date_is = "read"
method = "by hand"
[[sweeps]]
collective = "all_reduce"
points = [{ busbw_gbps = 5.0 }]
"""


def test_a_user_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert find(str(path)).sweeps[0].points[0].busbw_gbps == 5.0


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('gpu = "NVIDIA X"\n', "", "missing required field `gpu`"),
        ("ranks = 2", "ranks = 0", "Expected `int` >= 1"),
        ("ranks = 2", "ranks = 2\nrank = 2", "unknown field `rank`"),
        ('"2026-11"', '"last year"', "regex"),
        ("busbw_gbps = 5.0", "busbw = 5.0", "unknown field `busbw`"),
        ("busbw_gbps = 5.0", 'busbw_gbps = "fast"', "Expected `float`"),
        ("points = [{ busbw_gbps = 5.0 }]", "points = []", "length >= 1"),
        ("ranks = 2", "ranks = = 2", "is not a valid reference"),
    ],
)
def test_a_file_against_the_schema_is_refused(tmp_path: Path, before: str, after: str, complaint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(before, after))
    with pytest.raises(UsageError, match="is not a valid reference") as refused:
        find(str(path))
    assert complaint in str(refused.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot read"):
        find("/nowhere/mine.toml")


SCHEMA = Path(__file__).resolve().parents[3] / "schema" / "reference.schema.json"


def test_the_published_schema_is_that_of_the_types() -> None:
    assert SCHEMA.read_text() == schema_text("reference"), "run: python -m busbw.schema reference"


@pytest.mark.parametrize("name", references())
def test_every_file_is_valid_by_the_published_schema(name: str) -> None:
    told = msgspec.toml.decode((resources.files("busbw.reference") / f"{name}.toml").read_bytes())
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))


SEEDS = sorted((Path(__file__).resolve().parents[2] / "golden" / "seeds").glob("*.txt"))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.name[:3])
def test_external_reports_are_complete(path: Path) -> None:
    """Every figure of more than one rank and above 0 bytes that the reader finds is a point of a reference."""
    held = {
        (sweep.collective, reference.ranks, point.size_bytes, round(point.busbw_gbps, 2))
        for reference in references().values()
        for sweep in reference.sweeps
        for point in sweep.points
    }
    missing = []
    for table in readers.read(path).tables:
        for row in table.rows:
            ranks, collective = row.ranks or table.ranks, row.collective or table.collective
            for figure in row.figures.values():
                busbw = figure.busbw_gbps
                if not ranks or ranks < 2 or row.size_bytes == 0 or busbw is None:
                    continue
                near = {round(busbw + step / 100, 2) for step in (-1, 0, 1)}
                if not any((collective, ranks, row.size_bytes, one) in held for one in near):
                    missing.append((collective, ranks, row.size_bytes, busbw))
    assert missing == []
