"""The documentation site: every link leads somewhere, search finds text, and pages fit a phone."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browser import TIMEOUT_MS, WIDTHS
from installed import installed_in
from polling import HANG_GUARD_S

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
from playwright.sync_api import Browser

from busbw.collectives import COLLECTIVES

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from docs_site import build_site, with_site_links  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site. Its build fails for a broken link or anchor."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: tools/setup.sh docs")
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "docs_site.py", folder],
        env={**os.environ, "BUSBW_PROGRAMS": str(installed_in())},
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # name of the base class
        del format, args


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Address of a web server with the site: a page from a file cannot load the search index."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietHandler, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def pages_of(site: Path) -> list[str]:
    """Paths of all pages, without the example report."""
    paths = (path.relative_to(site) for path in site.rglob("*.html"))
    return sorted(path.as_posix() for path in paths if path.parts[0] != "examples")


def test_the_site_has_every_page_and_the_generated_reference(site: Path) -> None:
    pages = set(pages_of(site))
    sources = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    expected = {path.as_posix().replace("README.html", "index.html") for path in sources}
    generated = {f"reference/{name}.html" for name in ("commands", "program-flags", "python-api", "schema-records")}
    assert expected | generated <= pages
    # Pages outside docs/ that a page links to.
    assert "project/schema/index.html" in pages


def test_a_broken_anchor_fails(site: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(site.parent / "site-source", source)
    page = source / "content" / "reference" / "json.md"
    page.write_text(page.read_text() + "\n[x](glossary.md#no-such-term)\n")
    done = build_site(source, tmp_path / "site")
    assert done.returncode == 1
    assert "does not contain an anchor '#no-such-term'" in done.stdout + done.stderr


def test_a_broken_link_is_named(tmp_path: Path) -> None:
    page = ROOT / "docs" / "reference" / "json.md"
    with pytest.raises(FileNotFoundError, match=r"docs/reference/json.md: the link to ../no.md is broken"):
        with_site_links("[x](../no.md)", page)


def test_links_out_of_the_documents_and_marks_of_blocks_are_translated() -> None:
    text = "[a](records.md#rules) [b](../../schema/README.md)\n\n```console needs-gpu\n$ [c](no.md)\n```\n"
    translated, files = with_site_links(text, ROOT / "docs" / "reference" / "json.md")
    assert "[a](records.md#rules) [b](../project/schema/README.md)" in translated
    assert '```console title="needs a GPU"\n$ [c](no.md)\n' in translated
    assert files == [ROOT / "docs" / "reference" / "records.md", ROOT / "schema" / "README.md"]


def test_bars_in_code_and_signs_in_text_are_shown_as_in_the_help(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text()
    assert "<code>--submit-with [auto|sbatch|srun]</code>" in page
    assert "[1&lt;=x&lt;=10000]" in page
    assert r"\|" not in (site / "guides" / "report.html").read_text()


def test_the_search_index_has_options_flags_fields_and_functions(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    text = {entry["location"]: entry["text"] for entry in index["docs"]}
    assert "--machine-type" in text["reference/commands.html#busbw-launch-slurm"]
    assert "--datatype" in text["reference/program-flags.html#data"]
    assert "rank_arrivals_us" in text["reference/schema-records.html#rowrecord"]
    assert "UsageError" in text["reference/python-api.html#busbw.api.load"]
    assert all(f"{name}_perf" in text["reference/program-flags.html"] for name in COLLECTIVES)


def test_a_search_finds_a_term(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(f"{address}/reference/glossary.html")
    page.click(".md-search__input")
    page.keyboard.type("throttle reason")
    page.wait_for_selector(".md-search-result__item")
    assert "Glossary" in page.locator(".md-search-result__item h1").all_inner_texts()
    page.close()


def test_no_page_is_wider_than_the_window(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    wide_pages = {}
    wide_tables = dict.fromkeys(WIDTHS, 0)
    for name in pages_of(site):
        if name.startswith("project/"):
            continue  # copies of pages that are not documentation
        page.goto((site / name).as_uri())
        page.wait_for_selector(".md-content")
        for width, (across, down) in WIDTHS.items():
            page.set_viewport_size({"width": across, "height": down})
            scroll_width = page.evaluate("document.documentElement.scrollWidth")
            if scroll_width > across:
                wide_pages[name, width] = scroll_width
            wide_tables[width] += page.evaluate(
                "[...document.querySelectorAll('.md-typeset__scrollwrap')]"
                ".filter(each => each.scrollWidth > each.clientWidth).length"
            )
    page.close()
    assert wide_pages == {}
    assert wide_tables["phone"] > 3, "no table is wider than a phone, so nothing was tested"
