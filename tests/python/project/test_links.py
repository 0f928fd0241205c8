"""Every link between the project's pages leads somewhere, and the list of results names every page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [
    *ROOT.glob("*.md"),
    *(page for folder in ("docs", "bench", "deploy", "schema", "tests") for page in (ROOT / folder).rglob("*.md")),
]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    """Those into the project, without the place in a page."""
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        path, _, _ = target.partition("#")
        if path and not re.match(r"[a-z]+:", path):
            yield path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [path for path in links(page) if not (page.parent / path).exists()] == []


def test_every_result_is_listed() -> None:
    results = ROOT / "bench" / "results"
    listed = set(links(results / "README.md"))
    pages = {page.name for page in results.iterdir() if page.suffix == ".md"} - {"README.md"}
    assert pages - listed == set()
    assert len(pages) > 20


def test_results_are_short_pages() -> None:
    """Raw records stay out of the tree."""
    files = [path for path in (ROOT / "bench" / "results").iterdir() if path.is_file()]
    assert [path.name for path in files if path.suffix != ".md"] == []
    assert sum(path.stat().st_size for path in files) <= 500_000
