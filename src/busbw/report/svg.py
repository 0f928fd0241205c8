"""SVG elements. Callers pass plain text, which this module escapes. Children of type Markup are inserted unchanged."""

from markupsafe import Markup, escape

from busbw.units import plain

_SPACES = str.maketrans("\n\t\r", "   ")


def clean(text: str) -> str:
    """Replaces control characters in a log's text, such as escapes, NUL and changes of text direction.

    A line break or tab becomes a space, any other control character U+FFFD.
    """
    return plain(text.translate(_SPACES), "\N{REPLACEMENT CHARACTER}")


def cut_end(text: str, max_length: int) -> str:
    """Cuts a text to a number of characters, the last one an ellipsis."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}\N{HORIZONTAL ELLIPSIS}"


def element(name: str, *children: Markup | str, **attributes: str | float | None) -> Markup:
    """Makes one element. Markup children are inserted as they are, other children as text.

    Attributes that are None are omitted. `class_` means class, and `_` in a name means `-`.
    """
    attribute_texts = (
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(_attribute_text(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = Markup("").join(child if isinstance(child, Markup) else escape(clean(child)) for child in children)
    start = f"<{name}{''.join(attribute_texts)}"
    return Markup(f"{start}>{content}</{name}>" if children else f"{start}/>")


def group(*children: Markup | str, **attributes: str | float | None) -> Markup:
    """Makes a `g` element."""
    return element("g", *children, **attributes)


def drawing(*children: Markup, label: str, width: float, height: float, **attributes: str | None) -> Markup:
    """Makes a complete drawing. Screen readers read `label`."""
    view_box = f"0 0 {width:g} {height:g}"
    return element("svg", *children, viewBox=view_box, role="img", aria_label=label, class_="drawing", **attributes)


def _attribute_text(value: str | float) -> str:
    """Text of an attribute. Coordinates have one decimal: more is not visible and makes files large."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
