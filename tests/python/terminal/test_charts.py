"""Charts of characters: what each function adds to the drawing."""

from busbw.terminal.charts import Chart

WIDTH, HEIGHT = 40, 14
LEGEND_MARKS = 1


def make_chart() -> Chart:
    """Returns a chart with two marks. plotext has one figure, so it ends the chart before."""
    chart = Chart("times", WIDTH, HEIGHT)
    chart.add([0, 10], [0, 10], label="a", marker="+", are_joined=False)
    return chart


def draw(chart: Chart) -> list[str]:
    """Returns the lines within the frame of the chart, from top to bottom."""
    lines = [line for line in chart.text().splitlines() if line.endswith("│")]
    return [line[:-1].replace("┤", "│").split("│", 1)[1] for line in lines]


def count_characters(lines: list[str], character: str) -> int:
    return sum(line.count(character) for line in lines)


def line_of_last_mark(lines: list[str]) -> int:
    """Returns the number of the line with a mark in its last column, from the bottom."""
    (line,) = (index for index, text in enumerate(reversed(lines)) if text.endswith("+"))
    return line


def test_a_curve_joins_its_points_and_marks_stay_apart() -> None:
    assert count_characters(draw(make_chart()), "+") == 2 + LEGEND_MARKS
    chart = Chart("times", WIDTH, HEIGHT)
    chart.add([0, 10], [0, 10], label="a", marker="+", are_joined=True)
    assert count_characters(draw(chart), "+") > 10 + LEGEND_MARKS


def test_a_vertical_line_has_the_whole_height() -> None:
    without = draw(make_chart())
    chart = make_chart()
    chart.add_vertical_line(5)
    lines = draw(chart)
    assert count_characters(lines, "│") == count_characters(without, "│") + len(lines)


def test_the_vertical_axis_ends_at_the_given_value_or_at_the_points() -> None:
    chart = make_chart()
    chart.set_y_range(0, None)
    lines = draw(chart)
    assert line_of_last_mark(lines) == len(lines) - 1
    chart = make_chart()
    chart.set_y_range(0, 20)
    assert line_of_last_mark(draw(chart)) == (len(lines) - 1) // 2


def test_ticks_have_the_labels_of_the_caller() -> None:
    chart = make_chart()
    chart.set_x_ticks([0, 10], ["8 B", "8 GiB"])
    chart.set_y_ticks([0, 10], ["none", "all"])
    lines = chart.text().splitlines()
    assert lines[-1].split() == ["8", "B", "8", "GiB"]
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == ["all", "none"]


def test_a_new_chart_has_nothing_of_the_last_one() -> None:
    make_chart().add([0, 10], [5, 5], label="earlier", marker="x", are_joined=False)
    text = make_chart().text()
    assert "earlier" not in text
    assert max(map(len, text.splitlines())) <= WIDTH
