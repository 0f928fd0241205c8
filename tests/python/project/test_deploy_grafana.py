"""The dashboard of deploy/grafana queries only metrics and labels that `busbw export prometheus` writes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import GOLDEN_RECORD, ROOT
from prometheus_client.parser import text_string_to_metric_families

from busbw.cli.main import main

DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "busbw.json").read_text())
SEED = next((ROOT / "tests" / "golden" / "seeds").glob("000_*"))

WORDS_OF_PROMQL = {"by", "count", "max", "or", "quantile", "sum", "time", "vector"}
"""Functions and keywords that the queries use."""

Labels = dict[str, set[str]]
"""Labels of each metric."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Labels:
    """Metrics and labels of a real export: a record with groups and wrong data, and a published log."""
    path = tmp_path_factory.mktemp("export") / "busbw.prom"
    assert main(["export", "prometheus", str(GOLDEN_RECORD), str(SEED), "--output", str(path)]) == 0
    labels: Labels = {}
    for family in text_string_to_metric_families(path.read_text()):
        labels[family.name] = {name for sample in family.samples for name in sample.labels}
    return labels


def queries() -> Iterator[tuple[str, str]]:
    """Yields the expression and the legend of each query of each panel."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def problems(expression: str, legend: str, exported: Labels) -> list[str]:
    """Returns each name of a query that the export does not have."""
    found = []
    text = re.sub(r'"[^"]*"', '""', expression)
    names = re.findall(r"[A-Za-z_]\w*", re.sub(r"\{[^}]*\}|by \([^)]*\)", "", text))
    metrics = [name for name in names if name not in WORDS_OF_PROMQL]
    found += [f"metric {name}" for name in metrics if name not in exported]
    known = set.union(*(exported.get(name, set()) for name in metrics)) if metrics else set()
    selectors = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", " ".join(re.findall(r"\{([^}]*)\}", text)))
    groupings = [label.strip() for part in re.findall(r"by \(([^)]*)\)", text) for label in part.split(",")]
    legends = re.findall(r"\{\{(\w+)\}\}", legend)
    found += [f"label {label}" for label in (*selectors, *groupings, *legends) if label not in known]
    found += [f"legend {label}" for label in legends if groupings and label not in groupings]
    return found


def test_every_query_finds_its_metrics_and_labels(exported: Labels) -> None:
    assert len(list(queries())) >= 8
    assert {expression: problems(expression, legend, exported) for expression, legend in queries()} == {
        expression: [] for expression, _ in queries()
    }


@pytest.mark.parametrize(
    ("expression", "legend", "problem"),
    [
        ("busbw_speed", "", "metric busbw_speed"),
        ('busbw_verdict{host="a"}', "", "label host"),
        ("sum by (node) (busbw_verdict)", "", "label node"),
        ("sum by (grade) (busbw_verdict)", "{{hosts}}", "legend hosts"),
        ("rate(busbw_verdict)", "", "metric rate"),
    ],
)
def test_an_unknown_name_is_found(expression: str, legend: str, problem: str, exported: Labels) -> None:
    assert problem in problems(expression, legend, exported)


def test_every_variable_lists_the_values_of_an_exported_label(exported: Labels) -> None:
    variables = [entry for entry in DASHBOARD["templating"]["list"] if entry["type"] == "query"]
    used = {name for expression, _ in queries() for name in re.findall(r"\$(\w+)", expression)}
    assert {entry["name"] for entry in variables} == used
    for entry in variables:
        match = re.fullmatch(r"label_values\((\w+), (\w+)\)", entry["query"]["query"])
        assert match, entry["query"]
        assert match[2] in exported[match[1]]


def test_every_metric_is_shown(exported: Labels) -> None:
    shown = " ".join(expression for expression, _ in queries())
    left_out = {name for name in exported if name not in shown}
    assert left_out == {"busbw_algorithm_bandwidth_bytes_per_second"}, "bus bandwidth is shown instead"


def test_panels_have_their_own_ids_and_places() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert all(panel["description"] for panel in panels)
