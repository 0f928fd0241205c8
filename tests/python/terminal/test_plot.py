"""The picture of bandwidth over size."""

from pathlib import Path

import msgspec
import pytest

from busbw import readers
from busbw.logs.log import Figure, Placement, Row
from busbw.terminal import plot

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "records.jsonl"
ROW = readers.read(GOLDEN).rows[0]


def curve(sizes: list[int], placement: Placement = "out_of_place", **changes: object) -> list[Row]:
    return [
        msgspec.structs.replace(ROW, size_bytes=size, figures={placement: Figure(busbw_gbps=float(number))}, **changes)
        for number, size in enumerate(sizes, start=1)
    ]


SWEEP = [8 << step for step in range(24)]


@pytest.mark.parametrize("width", [80, 60, 40, 200])
def test_it_fits(width: int) -> None:
    lines = plot.busbw_over_size(curve(SWEEP), width=width).splitlines()
    assert 5 < len(lines) <= plot.HEIGHT
    assert max(map(len, lines)) <= min(width, 80)


def test_it_names_first_and_last_size_and_both_placements() -> None:
    picture = plot.busbw_over_size([*curve(SWEEP), *curve(SWEEP, placement="in_place")])
    axis = picture.splitlines()[-1].split()
    assert axis[0] == "8B"
    assert axis[-1] == "64MiB"
    assert "out of place" in picture
    assert "in place" in picture


def test_labels_tell_configurations_apart() -> None:
    picture = plot.busbw_over_size([*curve(SWEEP, dtype="half"), *curve(SWEEP, dtype="double", group=1)])
    assert "half group 0 out of place" in picture
    assert "double group 1 out of place" in picture


def test_omitted_curves_are_counted() -> None:
    rows = [row for root in range(9) for row in curve(SWEEP, root=root)]
    assert "the first 6 of 9 curves" in plot.busbw_over_size(rows)


def test_expected_points_have_a_marker_of_their_own() -> None:
    """Six curves use all markers of curves, and no curve is near the expected point."""
    rows = [row for root in range(6) for row in curve(SWEEP, root=root)]
    picture = plot.busbw_over_size(rows, expected={SWEEP[0]: 20.0})
    inside_frame = [line.split("│")[1] for line in picture.splitlines() if line.count("│") == 2]
    inside_frame += [line.split("┤")[1] for line in picture.splitlines() if "┤" in line]
    assert "".join(inside_frame).count("o") == 1


@pytest.mark.parametrize("rows", [[], curve([8]), curve([0, 0]), [msgspec.structs.replace(ROW, figures={})]])
def test_nothing_to_draw(rows: list[Row]) -> None:
    assert plot.busbw_over_size(rows) == ""


def pictured(times_us: list[float]) -> list[str]:
    """The lines of a picture of these times, over the first sizes of the sweep."""
    rows = [
        msgspec.structs.replace(row, figures={"in_place": Figure(time_us=time_us)})
        for row, time_us in zip(curve(SWEEP), times_us, strict=False)
    ]
    return plot.time_over_size(rows, width=80).splitlines()


def test_time_has_decades_on_its_axis() -> None:
    lines = pictured([1.2 * 10.0 ** (number / 8) for number, _ in enumerate(SWEEP)])
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == ["1000", "100", "10", "1"]
    assert "time (us) over size" in lines[0]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("times_us", "marks"),
    [
        ([1.0, 10.0, 100.0], ["100", "10", "1"]),
        ([1.5, 3.0, 6.0], ["5", "2"]),
        ([24.1, 26.0, 29.9], None),  # no round figures between: any two
        ([7.0, 7.0], None),
    ],
)
def test_an_axis_has_at_least_two_figures_and_none_in_its_frame(times_us: list[float], marks: list[str] | None) -> None:
    lines = pictured(times_us)
    labels = [line.split("┤")[0].strip() for line in lines if "┤" in line]
    assert len(labels) >= 2
    if marks:
        assert labels == marks
    assert not any(character.isdigit() for character in lines[1])  # the frame's upper edge
    assert not lines[-1].split()[0].startswith(tuple(f"{label}8" for label in labels))  # the sizes stand alone


def test_the_expectation_is_drawn() -> None:
    expected = dict.fromkeys(SWEEP, 5.0)
    assert "expected" in plot.busbw_over_size(curve(SWEEP), expected=expected)
    assert "expected" not in plot.busbw_over_size(curve(SWEEP), expected={1 << 60: 5.0})


def test_two_plots_side_by_side() -> None:
    assert plot.join_columns("a\nbb\nc", "x\ny", 4) == "a   x\nbb  y\nc"
