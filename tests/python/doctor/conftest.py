"""Settings of the tests of `busbw doctor`."""

import pytest


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the width that parallel workers of pytest set, because output is wrapped to it."""
    monkeypatch.delenv("COLUMNS", raising=False)
