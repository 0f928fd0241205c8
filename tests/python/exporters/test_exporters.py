"""Tests of exports, read back by programs for the format."""

import csv
import io
import json
import math
import sys
from collections.abc import Sequence

import junitparser
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyarrow import parquet
from sample_logs import AWKWARD, figure, log, row, table

from busbw.errors import BusbwError
from busbw.exporters import EXPORTERS
from busbw.exporters.flat import COLUMNS, column_blocks, flat_rows
from busbw.judge import JudgedConfiguration, judge_configurations
from busbw.logs.log import Figure, Log, Rank
from busbw.records import LateRankRecord
from busbw.system import find


def written(form: str, *logs: Log, verdicts: Sequence[JudgedConfiguration] = ()) -> bytes:
    out = io.BytesIO()
    EXPORTERS[form].write(logs, out, verdicts)
    return out.getvalue()


def figures(*logs: Log) -> list[Figure]:
    return [figure for log in logs for row in log.rows for figure in row.figures.values()]


@pytest.mark.parametrize("form", EXPORTERS)
def test_every_exporter_takes_every_log(form: str) -> None:
    assert written(form, AWKWARD, log())
    assert EXPORTERS[form].SUFFIX.startswith(".")
    assert written(form, AWKWARD) == written(form, AWKWARD), "the same log gives the same bytes"


@pytest.mark.parametrize("form", [form for form in EXPORTERS if form != "parquet"])
def test_text_is_utf_8_and_has_no_control_characters(form: str) -> None:
    text = written(form, AWKWARD).decode()
    assert "\x1b" not in text or form == "csv"
    assert "nan" not in text.lower().replace("nanosecond", "")


def test_csv_has_every_measurement_with_units_in_its_header() -> None:
    lines = list(csv.DictReader(io.StringIO(written("csv", AWKWARD).decode(), newline="")))
    assert len(lines) == len(figures(AWKWARD)) == 10
    assert {"size_bytes", "time_us", "busbw_gbps", "median_us"} <= set(lines[0])
    assert [line["time_us"] for line in lines[:3]] == ["16.0", "", "16.0"]
    assert lines[0]["wrong_elements"] == "5"
    assert lines[0]["hosts"] == "node17.acme.example node18.acme.example"
    assert lines[0]["median_ci95_high_us"] == "17.5"
    assert [line["check"] for line in lines][-3:-2] == ["not_applicable"]


def test_a_long_table_is_exported_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple(row(8 << index, group=index % 2) for index in range(5))
    long_log = Log(source="log", tables=(msgspec.structs.replace(table(), rows=rows),))
    whole = list(flat_rows([long_log]))
    monkeypatch.setattr("busbw.exporters.flat._BLOCK_ROWS", 2)
    blocks = list(column_blocks([long_log]))
    assert list(flat_rows([long_log])) == whole
    assert [len(columns["line"]) for columns in blocks] == [4, 4, 2]
    assert all(tuple(columns) == COLUMNS for columns in blocks)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\n=", " =", "\t \r\n@", "\u00a0=", "\uff1d", "\n"])
def test_csv_has_no_formulas(start: str) -> None:
    text = written("csv", log(table(rows=(row(variant=f"{start}1+1"),)))).decode()
    assert f"'{start}1+1" in text


def test_json_has_all_that_was_read() -> None:
    read = json.loads(written("json", AWKWARD))["logs"][0]
    assert read["refused"][0]["reason"] == "3 columns are no row"
    assert read["tables"][0]["rows"][0]["figures"]["in_place"]["time_us"] is None
    assert read["tables"][0]["rows"][0]["figures"]["out_of_place"]["first_wrong"][0]["index"] == 7


def test_markdown_has_a_line_per_row_and_as_many_cells_in_each() -> None:
    tables = written("markdown", AWKWARD).decode().split("### ")[1:]
    assert len(tables) == 2
    lines = [line for line in tables[0].splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 5
    cells = {line.replace("\\|", "").count("|") for line in lines}
    assert len(cells) == 1
    assert "<b>" not in tables[0]
    assert "time out of place (us)" in lines[0]
    assert "busbw in place (GB/s)" in lines[0]


def test_junit_as_a_build_server_reads_it() -> None:
    suites = list(junitparser.JUnitXml.fromstring(written("junit", AWKWARD)))
    first, second = suites
    cases = list(first)
    assert first.tests == len(cases) == 1 + len(figures(log(AWKWARD.tables[0])))
    assert (first.failures, first.errors, first.skipped) == (1, 1, 2)
    assert (second.failures, second.errors, second.skipped) == (0, 0, 0)
    failed = next(case for case in cases if any(isinstance(result, junitparser.Failure) for result in case.result))
    assert failed.result[0].message == "5 wrong elements"
    assert "rank 1, result, index 7: expected 3" in failed.result[0].text
    assert failed.time == pytest.approx(16e-6)
    broken = next(case for case in cases if any(isinstance(result, junitparser.Error) for result in case.result))
    assert "was lost" in broken.result[0].message
    names = [(case.classname, case.name) for case in cases]
    assert len(set(names)) == len(names)


def test_junit_sums_agree_with_the_cases() -> None:
    document = junitparser.JUnitXml.fromstring(written("junit", AWKWARD, log()))
    before = (document.tests, document.failures, document.errors, document.skipped)
    document.update_statistics()  # type: ignore[no-untyped-call]
    assert before == (document.tests, document.failures, document.errors, document.skipped)


def test_prometheus_as_its_own_parser_reads_it() -> None:
    families = {
        family.name: family for family in text_string_to_metric_families(written("prometheus", AWKWARD).decode())
    }
    assert all(family.type == "gauge" and family.documentation for family in families.values())
    times = families["busbw_operation_seconds"].samples
    labels = [tuple(sorted(sample.labels.items())) for sample in times]
    assert len(set(labels)) == len(labels), "a label set may come once"
    known = {sample.labels["variant"] for sample in times if "variant" in sample.labels}
    assert known == {'say "hi"\n=1+1'}
    assert {sample.value for sample in times} == {16e-6, 17.25e-6}
    assert all(math.isfinite(sample.value) for family in families.values() for sample in family.samples)
    (start,) = families["busbw_run_start_time_seconds"].samples
    assert start.value == 1790848800  # `date -d 2026-10-01T12:00:00+02:00 +%s`
    assert [sample.value for sample in families["busbw_run_complete"].samples] == [0, 1]
    wrong = [sample for sample in families["busbw_wrong_elements"].samples if sample.labels["size_bytes"] == "128"]
    assert wrong == [], "what has no result to check has no sample"


GROUPS = log(
    table(
        rank_list=tuple(
            Rank(rank=rank, group=rank // 2, host=f"node{rank // 2}", device_name="NVIDIA H200") for rank in range(4)
        ),
        rows=tuple(
            row(1 << power, line=20 * group + power, ranks=2, group=group, figures={"out_of_place": one})
            for group, one in enumerate(
                (
                    figure(1e4, algbw_gbps=None, busbw_gbps=None),
                    figure(20.0, algbw_gbps=None, busbw_gbps=None, wrong_elements=1),
                )
            )
            for power in range(3, 21)
        ),
    )
)
"""Two groups, each on a host of its own: 10 ms for each size in the first, wrong data in the second."""


def judged(*logs: Log) -> list[JudgedConfiguration]:
    return [configuration for log in logs for configuration in judge_configurations(log, system=find("h200-sxm"))]


def test_junit_fails_for_slow_and_broken_verdicts() -> None:
    (suite,) = junitparser.JUnitXml.fromstring(written("junit", GROUPS, verdicts=judged(GROUPS)))
    slow, broken = (case for case in suite if case.classname == "verdict")
    assert slow.result[0].message.startswith("SLOW: ")
    assert broken.result[0].message.startswith("BROKEN: wrong data")
    assert [isinstance(case.result[0], junitparser.Failure) for case in (slow, broken)] == [True, True]
    properties = [
        {entry.name: entry.value for entry in case.child(junitparser.Properties)}  # type: ignore[no-untyped-call]
        for case in (slow, broken)
    ]
    assert properties == [
        {"grade": "SLOW", "hosts": "node0", "group": "0", "system": "h200-sxm"},
        {"grade": "BROKEN", "hosts": "node1", "group": "1", "system": "h200-sxm"},
    ]
    assert suite.failures == 2 + 18, "the verdicts and each measurement with wrong data"


def test_junit_skips_a_verdict_that_is_unsure() -> None:
    unknown = log(table(rank_list=(), rows=(row(),)))
    verdicts = list(judge_configurations(unknown))
    assert [entry.grade for entry in verdicts] == ["UNSURE"]
    (suite,) = junitparser.JUnitXml.fromstring(written("junit", unknown, verdicts=verdicts))
    (case,) = (case for case in suite if case.classname == "verdict")
    assert isinstance(case.result[0], junitparser.Skipped)
    assert (suite.failures, suite.errors) == (0, 0)


def test_prometheus_has_one_sample_for_each_grade() -> None:
    families = {
        family.name: family
        for family in text_string_to_metric_families(written("prometheus", GROUPS, verdicts=judged(GROUPS)).decode())
    }
    samples = families["busbw_verdict"].samples
    assert len(samples) == 2 * 4
    decided = {sample.labels["grade"]: sample.labels for sample in samples if sample.value == 1}
    assert set(decided) == {"SLOW", "BROKEN"}
    assert {sample.value for sample in samples} == {0, 1}
    for grade, host, group in (("SLOW", "node0", "0"), ("BROKEN", "node1", "1")):
        labels = decided[grade]
        assert (labels["hosts"], labels["group"], labels["system"]) == (host, group, "h200-sxm")
    for sample in families["busbw_operation_seconds"].samples:
        assert (sample.labels["hosts"], sample.labels["system"]) == (f"node{sample.labels['group']}", "h200-sxm")


def test_an_unknown_host_or_system_has_no_label() -> None:
    unknown = log(table(rank_list=(), rows=(row(),)))
    text = written("prometheus", unknown, verdicts=list(judge_configurations(unknown))).decode()
    assert "busbw_verdict{" in text
    assert "hosts=" not in text
    assert "system=" not in text


def test_csv_lists_the_hosts_of_the_group() -> None:
    lines = csv.DictReader(io.StringIO(written("csv", GROUPS).decode(), newline=""))
    assert {(line["group"], line["hosts"]) for line in lines} == {("0", "node0"), ("1", "node1")}


def test_parquet_read_back_is_what_was_written() -> None:
    read = parquet.read_table(io.BytesIO(written("parquet", AWKWARD)))
    assert tuple(read.column_names) == COLUMNS
    assert read.num_rows == 10
    assert read["time_us"].to_pylist() == [row.time_us for row in flat_rows([AWKWARD])]
    assert read["ranks"].to_pylist() == [row.ranks for row in flat_rows([AWKWARD])]
    types = {field.name: str(field.type) for field in read.schema}
    assert (types["size_bytes"], types["time_us"], types["dtype"]) == ("int64", "double", "string")


def test_parquet_without_pyarrow_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BusbwError, match=r"pip install 'busbw\[parquet\]'") as error:
        written("parquet", log())
    assert error.value.exit_code == 3


def test_each_group_has_its_own_hosts() -> None:
    ranks = tuple(msgspec.structs.replace(rank, group=rank.rank // 2) for rank in table().rank_list)
    grouped = log(table(rank_list=ranks, rows=(row(group=0), row(group=1))))
    lines = list(csv.DictReader(io.StringIO(written("csv", grouped).decode(), newline="")))
    hosts = {"0": "node17.acme.example", "1": "node18.acme.example"}
    assert [line["hosts"] for line in lines] == [hosts[line["group"]] for line in lines]
    samples = [
        sample
        for family in text_string_to_metric_families(written("prometheus", grouped).decode())
        for sample in family.samples
        if "group" in sample.labels
    ]
    assert {sample.labels["group"] for sample in samples} == {"0", "1"}
    assert all(sample.labels["hosts"] == hosts[sample.labels["group"]] for sample in samples)


def test_csv_names_late_ranks() -> None:
    late = LateRankRecord(kind="late_start", rank=2, host="node18", late_us=3000.25, message="rank 2 is late")
    late_row = row(figures={"out_of_place": figure(late_ranks=(late,)), "in_place": figure()})
    lines = list(csv.DictReader(io.StringIO(written("csv", log(table(rows=(late_row,)))).decode(), newline="")))
    assert [line["late_ranks"] for line in lines] == ["rank 2 on node18: 3000.2 us", ""]
