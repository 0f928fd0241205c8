"""SVG elements. All attributes and texts are escaped in this module, so callers pass plain text."""

import unicodedata

from markupsafe import Markup, escape

_SPACES = {"\n", "\t", "\r"}


def clean(text: str) -> str:
    """Replaces control characters in a log's text, such as escapes, NUL and changes of text direction."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        " " if one in _SPACES else "\N{REPLACEMENT CHARACTER}" if unicodedata.category(one)[0] == "C" else one
        for one in text
    )


def element(name: str, *children: Markup | str, **attributes: str | float | None) -> Markup:
    """Makes one element. Attributes that are None are omitted; `class_` means class, and `_` in a name means `-`."""
    written = (
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(_text(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(child if isinstance(child, Markup) else escape(clean(child)) for child in children)
    start = f"<{name}{''.join(written)}"
    return Markup(f"{start}>{inner}</{name}>" if children else f"{start}/>")


def group(*children: Markup | str, **attributes: str | float | None) -> Markup:
    """Makes a `g` element."""
    return element("g", *children, **attributes)


def drawing(*children: Markup, label: str, width: float, height: float, **more: str | None) -> Markup:
    """Makes a complete drawing. Screen readers read `label`."""
    box = f"0 0 {width:g} {height:g}"
    return element("svg", *children, viewBox=box, role="img", aria_label=label, class_="drawing", **more)


def _text(value: str | float) -> str:
    """Attribute text. Coordinates have one decimal: more is not visible and makes files large."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
