"""`busbw find --junit` and `--prometheus`, read by independent parsers."""

import time
from pathlib import Path

import msgspec
import pytest
from junitparser import Error, Failure, JUnitXml, Skipped
from prometheus_client.parser import text_string_to_metric_families

from busbw.cli.find.exports import junit_document, prometheus_text
from busbw.cli.find.summary import SearchSummary
from busbw.cli.main import main
from busbw.find.findings import Finding, UndecidedParts
from busbw.find.naming import NamedPart
from busbw.find.power import KindPower

KINDS = ["gpu", "nvlink", "nic", "numa", "node", "pair", "rail", "leaf", "uplink"]
HOSTILE = 'n0"\\\n\x00<&'


def summary(*findings: Finding, undecided: tuple[UndecidedParts, ...] = (), complete: bool = True) -> SearchSummary:
    power = KindPower(kind="node", parts=4, all_parts=4, min_flows=3, median_flows=3, found=0.9)
    return SearchSummary(
        findings=list(findings),
        undecided=list(undecided),
        healthy=not findings and not undecided,
        power=[power],
        rounds=7,
        first_answer_rounds=9,
        flows=50,
        measured_s=None,
        simulated=False,
        unsuspected_nodes=["n1"],
        complete=complete,
        seed=0,
        gpu_types={},
    )


def results(document: bytes) -> dict[str, list[tuple[type, str | None]]]:
    [suite] = JUnitXml.fromstring(document)
    return {case.name: [(type(one), one.message) for one in case.result] for case in suite}


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.type == "gauge" and family.documentation for family in families)
    return {
        (sample.name.removeprefix("busbw_find_"), tuple(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_search_writes_both_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit, prometheus = tmp_path / "find.xml", tmp_path / "find.prom"
    start_s = time.time()
    words = ["--simulate", "4x2", "--fault", "nic:1/0:2", "--fault", "nic:2/1:dead"]
    assert main(["find", *words, "--junit", str(junit), "--prometheus", str(prometheus)]) == 5
    assert capsys.readouterr().out.startswith("SLOW: NIC mlx5_1 of n2")
    cases = results(junit.read_bytes())
    assert list(cases) == ["completes", *KINDS]
    assert {name: [one for one, _ in found] for name, found in cases.items() if found} == {
        "nic": [Failure],
        "numa": [Skipped],
        "uplink": [Skipped],
    }
    [suite] = JUnitXml.fromstring(junit.read_bytes())
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (10, 1, 0, 2)
    [nic] = [case for case in suite if case.name == "nic"]
    assert [line.split(" (")[0] for line in nic.result[0].text.splitlines()] == ["NIC mlx5_1 of n2", "NIC mlx5_0 of n1"]
    found = samples(prometheus.read_bytes())
    slow = {dict(labels)["node"]: value for (name, labels), value in found.items() if name == "slowdown"}
    assert slow == {"n1": pytest.approx(2, rel=0.05), "n2": float("inf")}
    assert (found["healthy", ()], found["complete", ()], found["undecided", ()]) == (0, 1, 0)
    assert found["rounds", ()] >= 8
    assert found["measured_seconds", ()] > 0
    assert start_s <= found["end_time_seconds", ()] <= time.time()


def test_a_healthy_search_passes(tmp_path: Path) -> None:
    junit, prometheus = tmp_path / "find.xml", tmp_path / "find.prom"
    assert main(["find", "--simulate", "4x2", "--junit", str(junit), "--prometheus", str(prometheus)]) == 0
    assert {name for name, found in results(junit.read_bytes()).items() if found} == {"numa", "uplink"}
    found = samples(prometheus.read_bytes())
    assert found["healthy", ()] == 1
    assert not any(name == "slowdown" for name, _ in found)


def test_undecided_parts_are_an_error_of_each_kind() -> None:
    parts = (NamedPart(kind="nic", node="n0", nic="mlx5_0"), NamedPart(kind="node", node="n0"))
    cases = results(junit_document(summary(undecided=(UndecidedParts(between=parts, slowdown=2.0, says="either"),))))
    assert cases["nic"] == cases["node"] == [(Error, "either")]
    assert cases["gpu"] == [(Skipped, "not measured")]


def test_a_slow_network_is_a_case_of_its_own() -> None:
    cases = results(junit_document(summary(undecided=(UndecidedParts(between=(), slowdown=2.0, says="all slow"),))))
    assert cases["network"] == [(Error, "all slow")]
    assert cases["node"] == []


def test_an_interrupted_search_is_an_error_and_an_unknown_duration_has_no_sample() -> None:
    interrupted = summary(complete=False)
    assert results(junit_document(interrupted))["completes"] == [(Error, "the search ended early, after round 7")]
    found = samples(prometheus_text(interrupted, 1.5))
    assert (found["complete", ()], found["end_time_seconds", ()]) == (0, 1.5)
    assert ("measured_seconds", ()) not in found


def test_hostile_names_stay_in_their_field() -> None:
    finding = Finding(
        kind="pair", nodes=(HOSTILE, "n1"), direction="both", slowdown=2.0, confidence=0.9, flows=3,
        exonerating_flows=3, says=f"network of {HOSTILE} is slow",
    )  # fmt: skip
    slow = summary(finding)
    assert results(junit_document(slow))["pair"] == [(Failure, 'network of n0"\\\n?<& is slow')]
    [labels] = [dict(labels) for name, labels in samples(prometheus_text(slow, 1.0)) if name == "slowdown"]
    assert labels == {"kind": "pair", "nodes": f"{HOSTILE} n1", "direction": "both"}


@pytest.mark.parametrize("flag", ["--junit", "--prometheus"])
def test_a_file_that_cannot_be_written_is_an_error_before_the_search(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nowhere" / "file"
    assert main(["find", "--measure-with", "/nonexistent/program", flag, str(path)]) == 3
    message = f"cannot write {path}: No such file or directory; set another path with {flag}"
    assert message in capsys.readouterr().err


def test_each_field_that_names_a_part_is_a_label() -> None:
    names = {field.encode_name for field in msgspec.structs.fields(NamedPart)}
    values = {"kind": "nic", "node": "a", "numa": 1, "nodes": ("a", "b"), "nic": "x", "gpu": 1, "gpus": (1, 2)}
    values |= {"rail": 0, "leaf": "l", "direction": "send"}
    assert set(values) == names
    finding = Finding(**values, slowdown=1.5, confidence=0.9, flows=3, exonerating_flows=3, says="")  # type: ignore[arg-type]
    [labels] = [dict(labels) for name, labels in samples(prometheus_text(summary(finding), 1.0)) if name == "slowdown"]
    assert labels == {name: " ".join(map(str, v)) if isinstance(v, tuple) else str(v) for name, v in values.items()}


def test_two_results_in_one_file_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["find", "--simulate", "4x2", "--junit", "result", "--prometheus", str(here / "result")]
    assert main(words) == 2
    assert "name the same file" in capsys.readouterr().err
    assert not Path("result").exists()
