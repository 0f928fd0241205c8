"""Renders a page as one self-contained HTML file, which loads no other resources."""

import base64
import hashlib
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from busbw import __version__
from busbw.report.page import Page
from busbw.report.svg import clean


def render(page: Page) -> str:
    """Returns the HTML text of a page."""
    style, script = _template_text("report.css"), _template_text("report.js")
    environment = Environment(
        loader=PackageLoader("busbw.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean_text,
    )
    html = environment.get_template("report.html.jinja").render(
        page=page,
        version=__version__,
        # Package files, so they are trusted and not escaped. The page's Content-Security-Policy allows only these.
        style=Markup(style),
        script=Markup(script),
        style_hash=_policy_hash(style),
        script_hash=_policy_hash(script),
    )
    return f"{html.strip()}\n"


def _clean_text(value: object) -> object:
    """Replaces control characters in texts.

    Markup is trusted: svg.py cleaned the drawings, and style and script are package files.
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean(value)
    return value


def _template_text(name: str) -> str:
    return (resources.files("busbw.report") / "templates" / name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    """Hash of a text in the notation of Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
