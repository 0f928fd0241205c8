"""From a page to one HTML file that needs nothing else: no network, no other file."""

import base64
import hashlib
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from busbw.report.page import Page
from busbw.svg import clean


def render(page: Page) -> str:
    """The whole file."""
    style, script = _text("report.css"), _text("report.js")
    environment = Environment(
        loader=PackageLoader("busbw.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    html = environment.get_template("report.html.jinja").render(
        page=page,
        # The two are ours and in the file's own language; a browser runs and applies nothing else (see the policy).
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return f"{html.strip()}\n"


def _finalize(value: object) -> object:
    """What stands in the page has no characters that control; markup has been cleaned where it was made."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else clean(value)


def _text(name: str) -> str:
    return (resources.files("busbw.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As the Content-Security-Policy names what it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
