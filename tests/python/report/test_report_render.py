"""The file: one, whole, of text that stays text, with headings and names for those who do not see it."""

import base64
import hashlib
import itertools
import re
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from report_pages import Parsed, page_of
from sample_logs import AWKWARD, log, row, table

from busbw.logs.log import Log, Refusal
from busbw.report import render

EVIL = (
    "</style></script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onload=alert(3) {{ 7*7 }} \x1b[31m\ud800"
)
ALLOWED = {
    "html head meta title style body a header p h1 h2 h3 h4 main section span b ul ol li div nav strong table caption",
    "thead tbody tr th td dl dt dd details summary figure figcaption svg g",
    "path rect text circle button footer sup script input label",
}


def evil_log() -> Log:
    ranks = tuple(replace(one, host=EVIL, device_name=EVIL, bus_id=EVIL) for one in table().rank_list)
    return log(
        table(
            title=EVIL,
            command=EVIL,
            library=EVIL,
            program_version=EVIL,
            start_time=EVIL,
            rank_list=ranks,
            settings={EVIL: EVIL},
            environment={EVIL: EVIL},
            end_reason=EVIL,
            complete=False,
            warnings=(EVIL,),
            rows=(row(8, variant=EVIL), row(8, 2, variant="other", dtype=EVIL), row(8, 3, variant="other")),
        ),
        source=EVIL,
        refused=(Refusal(line=1, text=EVIL, reason=EVIL),),
        warnings=(EVIL,),
    )


def test_text_of_a_log_stays_text() -> None:
    html = render(page_of(evil_log(), AWKWARD))
    parsed = Parsed(html)
    names = {name for name, _ in parsed.elements}
    assert names <= {name for group in ALLOWED for name in group.split()}
    assert len(parsed.named("script")) == 1
    assert all(attributes["type"] == "checkbox" for name, attributes in parsed.elements if name == "input")
    for name, attributes in parsed.elements:
        assert not any(key.startswith("on") for key in attributes), (name, attributes)
    assert "alert(1)</script><img src=x" in parsed.words
    assert "{{ 7*7 }}" in parsed.words
    html.encode("utf-8")
    assert "\x1b" not in html


def elements(heading: str) -> list[str]:
    page = page_of(log(table(title=heading, settings={"a": heading}), source="s"))
    return [name for name, _ in Parsed(render(page)).elements]


ELEMENTS_OF_PLAIN_TEXT = elements("xy")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=30)
@given(st.text(max_size=40))
def test_any_text_is_kept_and_changes_no_element(text: str) -> None:
    assert elements(f"x{text}") == ELEMENTS_OF_PLAIN_TEXT


def test_nothing_is_fetched_and_only_our_own_script_may_run() -> None:
    html = render(page_of(AWKWARD))
    parsed = Parsed(html)
    for _, attributes in parsed.elements:
        assert not attributes.keys() & {"src", "srcset", "style", "background", "data"}
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"https?://|@import|url\(", html)
    policy = next(one["content"] for one in parsed.named("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    for kind in ("style", "script"):
        text = html.partition(f"<{kind}>")[2].partition(f"</{kind}>")[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_headings_are_in_order_and_anchors_lead_somewhere() -> None:
    parsed = Parsed(render(page_of(log(source="a"), AWKWARD)))
    levels = [int(name[1]) for name, _ in parsed.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for one in parsed.named("a"):
        assert one["href"].removeprefix("#") in ids
    for _, attributes in parsed.elements:
        assert attributes.get("aria-labelledby", ids[0]) in ids


def test_pictures_and_tables_have_names() -> None:
    parsed = Parsed(render(page_of(log(source="a"), AWKWARD)))
    pictures = [one for one in parsed.named("svg") if "drawing" in one["class"]]
    assert len(pictures) > 5
    assert all(one["role"] == "img" and len(one["aria-label"]) > 20 for one in pictures)
    assert all(one.get("aria-hidden") == "true" for one in parsed.named("svg") if "drawing" not in one["class"])
    assert all(one.get("scope") in {"col", "row"} for one in parsed.named("th"))


def test_every_class_that_is_used_has_a_style() -> None:
    html = render(page_of(log(source="a"), AWKWARD))
    style = html.partition("<style>")[2].partition("</style>")[0]
    used = {name for _, attributes in Parsed(html).elements for name in attributes.get("class", "").split()}
    plain = {name for name in used if f".{name}" not in style}
    hooks = {"says"}  # for the script
    parts = {"table", "configuration", "comparison", "bands"}
    assert plain - hooks - parts <= {"unsure", "label", "unclear"}  # look as everything around them does


def test_the_verdict_comes_first_on_the_page() -> None:
    words = Parsed(render(page_of(AWKWARD))).words
    assert words.index("has wrong data") < words.index("Contents") < words.index("Run and system")


def luminance(color: str) -> float:
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colors_have_enough_contrast() -> None:
    """WCAG 2.1 AA: 4.5 for text, 3 for lines and marks; in light, dark and print."""
    style = (Path(__file__).resolve().parents[3] / "src/busbw/report/templates/report.css").read_text()
    palettes: list[dict[str, str]] = []
    for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL):
        palettes.append({**(palettes[0] if palettes else {}), **dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))})
    assert len(palettes) == 3
    for colors in palettes:
        for ground in ("paper", "sheet"):
            for text in ("ink", "quiet", "link"):
                assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
            for line in ("s0", "s1", "s2", "s3", "s4", "s5", "reference"):
                assert contrast(colors[line], colors[ground]) >= 3, (line, ground)
        for badge in ("good", "slow", "broken", "unsure"):
            assert contrast(colors[badge], colors[f"{badge}-paper"]) >= 4.5, badge
        for shade in range(5):
            text = "on-heat" if shade < 3 else "on-heat-dark"
            assert contrast(colors[text], colors[f"heat{shade}"]) >= 4.5, shade
