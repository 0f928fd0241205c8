"""Times and sizes as they are typed."""

from datetime import datetime, timezone

import pytest

from busbw.cli.options.filters import build_filter, parse_time
from busbw.errors import UsageError

NOW = datetime(2026, 10, 8, 12, tzinfo=timezone.utc)
NOTHING = dict.fromkeys(("sizes", "since", "until"))


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-10-01", "2026-10-01T00:00:00+00:00"),
        ("2026-10-01T12:00", "2026-10-01T12:00:00+00:00"),
        ("2026-10-01T12:00Z", "2026-10-01T12:00:00+00:00"),
        ("2026-10-01T12:00+02:00", "2026-10-01T10:00:00+00:00"),
        ("12h", "2026-10-08T00:00:00+00:00"),
        ("7d", "2026-10-01T12:00:00+00:00"),
        ("2w", "2026-09-24T12:00:00+00:00"),
    ],
)
def test_times(text: str, iso: str) -> None:
    assert parse_time(text, NOW, "--since") == datetime.fromisoformat(iso).timestamp()


@pytest.mark.parametrize("text", ["", "x", "7", "d", "2026-13-01", "-1d"])
def test_invalid_times(text: str) -> None:
    with pytest.raises(UsageError, match="--since"):
        parse_time(text, NOW, "--since")


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("1M..1G", 1 << 20, 1 << 30),
        ("1M..", 1 << 20, None),
        ("..1KiB", None, 1024),
        ("8", 8, 8),
        ("64k", 65536, 65536),
        ("1.5M", 3 << 19, 3 << 19),
    ],
)
def test_sizes(text: str, low: int | None, high: int | None) -> None:
    made = build_filter(NOW, None, **{**NOTHING, "sizes": text})
    assert (made.min_bytes, made.max_bytes) == (low, high)


@pytest.mark.parametrize("text", ["", "x", "1..2..3", "-1", "1.5", "1M...2M"])
def test_invalid_sizes(text: str) -> None:
    if text:
        with pytest.raises(UsageError, match="--sizes"):
            build_filter(NOW, None, **{**NOTHING, "sizes": text})


def test_programs_name_their_collective() -> None:
    assert build_filter(NOW, "all_reduce_perf", **NOTHING).collective == "all_reduce"


def test_a_range_of_sizes_begins_with_the_smaller_one() -> None:
    with pytest.raises(UsageError, match="begins with its larger size; swap the sizes"):
        build_filter(NOW, None, **{**NOTHING, "sizes": "1G..1M"})
    assert build_filter(NOW, None, **{**NOTHING, "sizes": "1M..1M"})
