"""The page of a search: answer, findings, and heat maps that show no more than was measured."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from report_pages import Parsed, svg_root

from busbw.cli.main import main
from busbw.report import render
from busbw.report.heat_grid import MAX_CELLS, Box, Flows, heat_grid
from busbw.report.search import build_search
from busbw.searches.recorded_search import read_search

SVG = "{http://www.w3.org/2000/svg}"


def recorded(folder: Path, *words: str) -> Path:
    """Searches in a simulated cluster and returns the record."""
    path = folder / "search.jsonl"
    assert main(["find", "--records", str(path), "--json", *words]) in (0, 5, 6)
    return path


def cells_of(svg: str) -> dict[str, str]:
    """Returns the class of each cell by its text on hover."""
    return {
        title.text or "": cell.attrib["class"] for cell in rectangles(svg) if (title := cell.find("title")) is not None
    }


def rectangles(svg: str) -> list[ET.Element]:
    return [element for element in svg_root(svg).iter() if element.tag.endswith("rect")]


def marks_of(svg: str) -> list[tuple[float, ...]]:
    """Returns x, y, width and height of the marks of findings."""
    return [
        tuple(float(one.attrib[name]) for name in ("x", "y", "width", "height"))
        for one in rectangles(svg)
        if one.attrib["class"] == "found"
    ]


def grid(
    rows: list[int], columns: list[int], slowdowns: list[float], size: int = 4, marks: list[Box] | None = None
) -> str:
    names = [f"n{number}" for number in range(size)]
    flows = Flows(np.array(rows), np.array(columns), np.log(slowdowns))
    return str(heat_grid("Nodes", flows, (names, names), marks or [], "Note.").svg)


def test_a_cell_has_the_median_of_its_flows_and_unmeasured_pairs_have_none() -> None:
    svg = grid([0, 0, 0, 2, 2], [1, 1, 1, 3, 3], [1.0, 3.0, 1.2, 1.0, 1.44])
    assert cells_of(svg) == {"n0, n1: x1.20, flows: 3": "heat2", "n2, n3: x1.20, flows: 2": "heat2"}


@pytest.mark.parametrize(
    ("slowdown", "shade"),
    [(0.97, "alike"), (1.04, "alike"), (1.1, "heat1"), (1.4, "heat2"), (1.9, "heat3"), (9, "heat4"), (200, "heat4")],
)
def test_the_shade_shows_the_slowdown(slowdown: float, shade: str) -> None:
    assert list(cells_of(grid([0], [1], [slowdown])).values()) == [shade]


def test_a_failed_flow_has_no_time() -> None:
    dead = float(np.inf)
    svg = grid([0, 0, 1, 1, 1], [1, 1, 2, 2, 2], [dead, 1.0, dead, dead, 1.0])
    assert cells_of(svg) == {"n0, n1: x1.00, flows: 2": "alike", "n1, n2: transfers nothing, flows: 3": "dead"}


def test_many_nodes_share_a_cell_with_the_slowest_pair() -> None:
    size = 8 * MAX_CELLS
    svg = grid([0, 7, 8], [3, 7, 0], [1.0, 2.5, 1.0], size=size, marks=[Box(7, 7, 0, size - 1)])
    assert cells_of(svg) == {"n7, n7: x2.50, flows: 1": "heat4", "n8, n0: x1.00, flows: 1": "alike"}
    [(x, y, width, height)] = marks_of(svg)
    board = next(one.attrib for one in rectangles(svg) if one.attrib["class"] == "unmeasured")
    assert (x, y, width) == (float(board["x"]), float(board["y"]), float(board["width"]))
    assert height == pytest.approx(float(board["height"]) / MAX_CELLS, abs=0.01)


def test_the_page_shows_the_answer_and_marks_the_nic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path, "--simulate", "8x4", "--fault", "nic-send:5/2:2")
    output = tmp_path / "page.html"
    capsys.readouterr()
    assert main(["report", str(path), "-o", str(output)]) == 0
    assert capsys.readouterr().out.startswith(f"{output}: SLOW: NIC mlx5_2 of n5 (GPU 2, rail 2), sending only takes ")
    page = Parsed(output.read_text())
    assert "confidence 99.9 %" in page.words
    assert "8 nodes, 32 GPUs, 32 NICs" in page.words
    assert "part slow-down 10-90 % confidence slow flows exonerating flows" in page.words
    nodes, nics = (
        picture.svg
        for table in build_search(read_search(path), "x").logs[0].tables
        for picture in (table.picture, *table.configurations[0].pictures)
        if picture
    )
    slow = {text: shade for text, shade in cells_of(nics).items() if shade in ("heat3", "heat4")}
    assert [text.split(":")[0] for text in slow] == ["2 send, n5"]
    cells = {one[0].text: one.attrib for one in rectangles(nics) if len(one)}
    [text] = slow
    assert marks_of(nics) == [tuple(float(cells[text][name]) for name in ("x", "y", "width", "height"))]
    [(_, y, width, height)] = marks_of(nodes)  # only the row of n5, because only sending is slow
    assert width > 7 * height
    row = next(one.attrib for one in rectangles(nodes) if len(one) and (one[0].text or "").startswith("n5, "))
    assert y == float(row["y"])


def test_every_measured_nic_and_no_other_has_a_cell(tmp_path: Path) -> None:
    path = recorded(tmp_path, "--simulate", "4x2", "--max-rounds", "2")
    search = read_search(path)
    [nics] = build_search(search, "x").logs[0].tables[0].configurations[0].pictures
    expected = set()
    for one in search.rounds:
        for source, target in zip(one.source.tolist(), one.target.tolist(), strict=True):
            if source // 2 != target // 2:
                expected |= {f"{source % 2} send, n{source // 2}", f"{target % 2} receive, n{target // 2}"}
    assert {text.split(":")[0] for text in cells_of(nics.svg)} == expected != set()


@pytest.mark.parametrize(
    ("fault", "node_marks", "nic_marks"),
    [("pair:1-3:2", 2, 0), ("rail:1:2", 0, 16), ("node:3:2", 2, 2), ("gpu:3/1:2", 2, 1), ("nvlink:3/0-1:2", 1, 0)],
)
def test_the_marks_are_those_of_the_part(fault: str, node_marks: int, nic_marks: int, tmp_path: Path) -> None:
    [table] = build_search(read_search(recorded(tmp_path, "--simulate", "16x2", "--fault", fault)), "x").logs[0].tables
    [nics] = table.configurations[0].pictures
    assert table.picture
    assert (len(marks_of(table.picture.svg)), len(marks_of(nics.svg))) == (node_marks, nic_marks)
    slow = {shade for picture in (table.picture, nics) for shade in cells_of(picture.svg).values()}
    assert slow & {"heat3", "heat4"}


@pytest.mark.parametrize(
    ("words", "headline", "grade"),
    [
        (["--simulate", "4x2"], "HEALTHY: no part is slower than its peers.", "GOOD"),
        (["--simulate", "4x1", "--fault", "nic:2/0:2"], "UNDECIDED: ", "UNSURE"),
        (["--simulate", "2x8", "--fault", "node:0:2"], "UNDECIDED: Typical flows between nodes reach ", "UNSURE"),
    ],
)
def test_the_headline_is_the_answer_of_the_search(words: list[str], headline: str, grade: str, tmp_path: Path) -> None:
    page = build_search(read_search(recorded(tmp_path, *words)), "x")
    assert page.headline.startswith(headline)
    assert page.badge.word == grade


def test_a_single_node_has_a_map_of_its_gpus(tmp_path: Path) -> None:
    page = build_search(read_search(recorded(tmp_path, "--simulate", "1x4", "--fault", "nvlink:0/1-2:1.5")), "x")
    [table] = page.logs[0].tables
    assert table.configurations[0].pictures == ()
    assert table.picture
    slow = {text.split(":")[0] for text, shade in cells_of(table.picture.svg).items() if shade != "alike"}
    assert slow == {"GPU 1, GPU 2", "GPU 2, GPU 1"}
    assert len(marks_of(table.picture.svg)) == 2


def test_a_killed_search_is_shown_as_incomplete(tmp_path: Path) -> None:
    path = recorded(tmp_path, "--simulate", "4x2", "--fault", "nic:2/1:2")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    page = Parsed(render(build_search(read_search(path), "x")))
    assert "no: the record has no end, so the search was killed or still runs" in page.words
    assert "SLOW: NIC mlx5_1 of n2 " in page.words


@pytest.mark.parametrize("part", [{"kind": "nvlink", "node": "n2"}, {"kind": "pair"}])
def test_a_recorded_part_without_gpus_or_nodes_has_a_page(part: dict[str, str], tmp_path: Path) -> None:
    path = recorded(tmp_path, "--simulate", "4x2")
    *rounds, end = map(json.loads, path.read_text().splitlines())
    figures = {"slowdown": None, "confidence": 0.99, "flows": 0, "exonerating_flows": 0, "dead": True, "lost": True}
    end["result"]["findings"] = [{**part, **figures, "says": "its processes do not answer"}]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (*rounds, end)))
    page = Parsed(render(build_search(read_search(path), "x")))
    assert "its processes do not answer" in page.words


def test_names_of_nodes_are_text(tmp_path: Path) -> None:
    path = recorded(tmp_path, "--simulate", "4x2", "--fault", "nic:2/1:2")
    evil = "<script>x</script>"
    path.write_text(path.read_text().replace('"n2"', f'"{evil}"'))
    html = render(build_search(read_search(path), "x"))
    assert evil not in html
    assert len(Parsed(html).named("script")) == 1


def test_a_search_is_not_reported_with_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path, "--simulate", "4x2")
    other = tmp_path / "other.jsonl"
    other.write_bytes(path.read_bytes())
    assert main(["report", str(path), str(other), "-o", str(tmp_path / "y.html")]) == 2
    assert "a search has a page of its own; report it alone" in capsys.readouterr().err
    assert not (tmp_path / "y.html").exists()


def test_a_redacted_page_has_the_finding_without_names(tmp_path: Path) -> None:
    path = recorded(tmp_path, "--simulate", "4x2", "--fault", "node:2:2")
    names = {"n0": "secret-a", "n1": "secret-b", "n2": "secret-ab", "n3": "gpu", "leaf0-0": "secret-leaf"}
    text = path.read_text()
    for name, secret in names.items():
        text = text.replace(f'"{name}"', f'"{secret}"').replace(f"node {name} ", f"node {secret} ")
    path.write_text(text)
    page = tmp_path / "page.html"
    assert main(["report", str(path), "--redact", "-o", str(page)]) == 0
    html = page.read_text()
    assert "node host-3 takes 1.97 times" in html
    assert not [word for word in ("secret", "search.jsonl", str(tmp_path), "--simulate") if word in html]
