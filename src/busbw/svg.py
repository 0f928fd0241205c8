"""Pictures as SVG: every attribute and every text is escaped here, and nowhere else."""

import unicodedata

from markupsafe import Markup, escape

_SPACES = {"\n", "\t", "\r"}


def clean(text: str) -> str:
    """Text of a log without characters that control instead of show: escapes, NUL, changes of direction."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        " " if one in _SPACES else "\N{REPLACEMENT CHARACTER}" if unicodedata.category(one)[0] == "C" else one
        for one in text
    )


def element(name: str, *children: Markup | str, **attributes: str | float | None) -> Markup:
    """One element. An attribute that is None is left out; `class_` is class, and `_` in a name is `-`."""
    given = (
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(_text(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(child if isinstance(child, Markup) else escape(clean(child)) for child in children)
    start = f"<{name}{''.join(given)}"
    return Markup(f"{start}>{inner}</{name}>" if children else f"{start}/>")


def group(*children: Markup | str, **attributes: str | float | None) -> Markup:
    """A `g`."""
    return element("g", *children, **attributes)


def drawing(*children: Markup, label: str, width: float, height: float, **more: str | None) -> Markup:
    """The whole picture; `label` is what it says to who does not see it."""
    box = f"0 0 {width:g} {height:g}"
    return element("svg", *children, viewBox=box, role="img", aria_label=label, class_="drawing", **more)


def _text(value: str | float) -> str:
    """Coordinates to a tenth of a unit: more is not seen and makes files large."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
