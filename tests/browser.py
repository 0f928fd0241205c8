"""Fixture with a headless browser, for tests of pages."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from polling import HANG_GUARD_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
"""Width and height of a window in pixels."""
TIMEOUT_MS = HANG_GUARD_S * 1000


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser here: none of {', '.join(NAMES)} is installed (sudo apt-get install chromium)")
    with api.sync_playwright() as playwright:
        # As root Chromium starts only without its sandbox; the pages are our own.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=program, args=arguments, timeout=TIMEOUT_MS)
        yield opened
        opened.close()
