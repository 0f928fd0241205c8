"""bench/results/expectation-accuracy.md says how well the expectation predicts; this keeps it true."""

import sys
from pathlib import Path

from busbw.reference import references

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from expectation_accuracy import AIM, coverages, large_plateaus, markdown, plateaus  # noqa: E402

PAGE = ROOT / "bench" / "results" / "expectation-accuracy.md"
SUMMARY_PAGE = ROOT / "docs" / "explanation" / "expectations.md"


def test_the_tables_are_up_to_date() -> None:
    text = PAGE.read_text()
    written = text.split("<!-- predicted against published: python tools/expectation_accuracy.py -->\n")[1]
    assert written.split("<!-- end -->")[0].strip() == markdown().strip()


def test_the_docs_quote_the_summary() -> None:
    summary = markdown().splitlines()[0]
    assert summary in " ".join(SUMMARY_PAGE.read_text().split())


def test_every_reference_is_in_it() -> None:
    assert {one.name for one in plateaus()} == set(references())


def test_every_miss_is_explained() -> None:
    after = PAGE.read_text().split("<!-- end -->")[1]
    missed = {
        one.name
        for one in plateaus()
        if abs(one.error) > AIM
        and not one.is_inside
        and not one.is_floor
        and "MSCCL" not in (one.reference.library or "")
    }
    assert [name for name in sorted(missed) if f"`{name}`" not in after] == []


def test_most_plateaus_are_within_the_aim() -> None:
    whole = large_plateaus()
    assert len(whole) > 50
    assert sum(abs(one.error) <= AIM for one in whole) >= 0.75 * len(whole)


def test_bands_count_their_points() -> None:
    for one in coverages():
        for points, inside, error in one.bands.values():
            assert 0 <= inside <= points
            assert error >= 0
