"""The report in a real browser: at desktop and phone width, light and dark, by keyboard and on paper."""

from itertools import pairwise
from pathlib import Path

import pytest
from browser import TIMEOUT_MS, WIDTHS

from busbw import readers
from busbw.cli.main import main
from busbw.judge import GRADES
from busbw.logs.log import Figure, Log, Refusal, Row, Table
from busbw.report import ReportInput, build, render

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
from playwright.sync_api import Browser

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
EVIL = "</style></script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"`"


def subject(log: Log) -> ReportInput:
    return ReportInput(log, (None,) * len(log.tables))


def hostile() -> Log:
    rows = tuple(
        Row(
            line=number,
            size_bytes=8 << number,
            collective="all_reduce",
            ranks=4,
            variant=EVIL if number % 2 else "plain",
            figures={"in_place": Figure(time_us=10.0 + number, warnings=(EVIL,))},
        )
        for number in range(8)
    )
    table = Table(
        format="text",
        title=EVIL,
        command=EVIL,
        library=EVIL,
        ranks=4,
        rows=rows,
        settings={EVIL: EVIL},
        warnings=("w" * 500, EVIL),
    )
    refused = (Refusal(line=1, text=EVIL * 5, reason=EVIL),)
    return Log(source=f"{'long' * 60}.txt", tables=(table,), refused=refused, warnings=(EVIL,))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of reports: of all seeds, of records with samples of each rank, of hostile text, of a search."""
    folder = tmp_path_factory.mktemp("reports")
    seeds = [readers.read(path) for path in sorted((GOLDEN / "seeds").iterdir())]
    records = readers.read(GOLDEN / "records.jsonl")
    made = {"seeds": seeds, "records": [records, records], "hostile": [hostile()]}
    found = {}
    for name, logs in made.items():
        path = folder / f"{name}.html"
        path.write_text(render(build([subject(log) for log in logs])), encoding="utf-8")
        found[name] = path.as_uri()
    record, path = folder / "search.jsonl", folder / "search.html"
    assert main(["find", "--simulate", "140x2", "--fault", "nic:30/1:2", "--records", str(record)]) == 5
    assert main(["report", str(record), "-o", str(path)]) == 0
    return {**found, "search": path.as_uri()}


class Opened:
    """A page in a window of its own, and what it said and asked for."""

    def __init__(self, browser: Browser, address: str, width: str = "desktop", **options: object) -> None:
        across, down = WIDTHS[width]
        self.context = browser.new_context(viewport={"width": across, "height": down}, **options)  # type: ignore[arg-type]
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize("name", ["seeds", "records", "hostile", "search"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_whole_alone_and_without_scrolling_sideways(
    browser: Browser, pages: dict[str, str], name: str, width: str
) -> None:
    with Opened(browser, pages[name], width) as opened:
        page = opened.page
        assert opened.messages == []
        assert opened.asked == [pages[name]]
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide[0] <= wide[1]
        verdict = page.locator(".headline").bounding_box()
        assert verdict is not None
        assert verdict["y"] + verdict["height"] <= WIDTHS[width][1]
        assert page.locator(".answer .badge").first.is_visible()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_heat_maps_of_a_search_are_readable(browser: Browser, pages: dict[str, str], width: str) -> None:
    with Opened(browser, pages["search"], width) as opened:
        colors = {}
        for picture in opened.page.locator("figure").all():
            cells = picture.locator("rect:has(title)")
            box = cells.first.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= 2
            slowest = picture.locator("svg.drawing rect.heat3, svg.drawing rect.heat4").first
            assert "flows: " in (slowest.locator("title").text_content() or "")
            for kind in ("alike", "heat1", "heat2", "heat3", "heat4", "dead", "unmeasured"):
                colors[kind] = picture.locator(f".keys .{kind}").evaluate("one => getComputedStyle(one).fill")
        assert len(set(colors.values())) == 7
        nics = opened.page.locator("figure").nth(1)
        cell_box = nics.locator("rect", has=opened.page.locator("title", has_text="1 send, n30:")).bounding_box()
        mark_box = nics.locator("svg.drawing rect.found").bounding_box()
        assert cell_box is not None
        assert mark_box is not None
        assert mark_box["x"] <= cell_box["x"] + cell_box["width"] / 2 <= mark_box["x"] + mark_box["width"]
        assert mark_box["y"] <= cell_box["y"] + cell_box["height"] / 2 <= mark_box["y"] + mark_box["height"]


def test_malicious_log_text_stays_text(browser: Browser, pages: dict[str, str]) -> None:
    with Opened(browser, pages["hostile"]) as opened:
        assert opened.page.title().endswith("(busbw report)")
        assert opened.page.locator("script").count() == 1
        assert opened.page.locator("img").count() == 0
        assert EVIL in opened.page.locator("h3").first.inner_text()


def test_an_injected_element_cannot_run(browser: Browser, pages: dict[str, str]) -> None:
    """The second wall: the page's own policy allows its own script alone."""
    with Opened(browser, pages["records"]) as opened:
        opened.page.evaluate(
            """() => { const one = document.createElement('script');
                       one.textContent = "document.title = 'owned'"; document.body.append(one); }"""
        )
        assert "owned" not in opened.page.title()


def colors(opened: Opened) -> tuple[str, str, str]:
    found: tuple[str, str, str] = tuple(
        opened.page.evaluate(
            """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
                      getComputedStyle(document.querySelector('.s0 .line')).stroke]"""
        )
    )
    return found


def test_dark_and_light(browser: Browser, pages: dict[str, str]) -> None:
    with Opened(browser, pages["records"], color_scheme="light") as opened:
        light = colors(opened)
    with Opened(browser, pages["records"], color_scheme="dark") as opened:
        dark = colors(opened)
        opened.page.emulate_media(media="print")
        on_paper = colors(opened)
    assert light[0] == on_paper[0] == "rgb(255, 255, 255)"
    assert all(one != other for one, other in zip(light, dark, strict=True))
    assert sum(map(int, dark[0][4:-1].split(","))) < 150 < 600 < sum(map(int, dark[1][4:-1].split(",")))


def test_without_a_mouse(browser: Browser, pages: dict[str, str]) -> None:
    with Opened(browser, pages["seeds"]) as opened:
        page = opened.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        box = page.locator(".skip").bounding_box()
        assert box is not None
        assert box["x"] >= 0  # seen as soon as it has the focus
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        curve = page.locator("svg[data-at]").first
        curve.focus()
        says = curve.locator("xpath=ancestor::figure").locator(".says")
        last = says.inner_text()
        assert last.startswith("8 GiB: ")
        page.keyboard.press("ArrowLeft")
        assert says.inner_text().startswith("4 GiB: ")
        page.keyboard.press("Home")
        assert says.inner_text().startswith("512 MiB: ")
        page.keyboard.press("ArrowLeft")
        assert says.inner_text().startswith("512 MiB: ")


def test_a_pointer_reads_the_nearest_size(browser: Browser, pages: dict[str, str]) -> None:
    with Opened(browser, pages["seeds"], "phone") as opened:
        curve = opened.page.locator("svg[data-at]").first
        curve.scroll_into_view_if_needed()
        box = curve.bounding_box()
        assert box is not None
        opened.page.mouse.move(box["x"] + box["width"] - 15, box["y"] + box["height"] / 2)
        says = curve.locator("xpath=ancestor::figure").locator(".says")
        assert says.inner_text().startswith("8 GiB: ")


def test_labels_for_screen_readers(browser: Browser, pages: dict[str, str]) -> None:
    with Opened(browser, pages["records"]) as opened:
        page = opened.page
        for role in ("banner", "main", "navigation", "contentinfo"):
            assert page.get_by_role(role).count() == 1, role
        assert page.evaluate("document.documentElement.lang") == "en"
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll('button, a, [role=region], [role=img], section')]
                .filter((one) => !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') ||
                                   one.textContent.trim()))
                .map((one) => one.outerHTML.slice(0, 80))"""
        )
        assert unnamed == []
        small = page.evaluate(
            """() => [...document.querySelectorAll('button:not([hidden]), summary')]
                .filter((one) => one.offsetParent && one.getBoundingClientRect().height < 24)
                .map((one) => one.textContent)"""
        )
        assert small == []


def test_without_javascript_everything_is_there(browser: Browser, pages: dict[str, str]) -> None:
    with Opened(browser, pages["records"], java_script_enabled=False) as opened:
        assert opened.page.locator("svg.drawing .frame").first.is_visible()
        opened.page.locator("section.configuration details > summary").first.click()
        assert opened.page.locator("section.configuration td").first.is_visible()


def test_on_paper_all_rows_are_open_and_nothing_is_cut(browser: Browser, pages: dict[str, str], tmp_path: Path) -> None:
    with Opened(browser, pages["records"], color_scheme="dark") as opened:
        page = opened.page
        closed = page.locator("details:not([open])").count()
        assert closed > 0
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details:not([open])").count() == closed
        page.emulate_media(media="print")
        assert page.locator(".contents").is_hidden()
        made = page.pdf(path=tmp_path / "report.pdf", format="A4")
        assert made.startswith(b"%PDF-")


@pytest.mark.parametrize("has_script", [True, False])
def test_the_bandwidth_axis_is_linear_and_can_be_logarithmic(
    browser: Browser, pages: dict[str, str], has_script: bool
) -> None:
    with Opened(browser, pages["records"], java_script_enabled=has_script) as opened:
        page = opened.page
        switch = page.locator("input.switch").first
        figure = switch.locator("xpath=ancestor::figure")

        def ticks() -> list[float]:
            (shown,) = [one for one in figure.locator("svg.drawing").all() if one.is_visible()]
            return [float(text.replace(",", "")) for text in shown.locator(".tick.end").all_text_contents()]

        linear = ticks()
        assert linear[0] == 0
        steps = [after - before for before, after in pairwise(linear)]
        assert max(steps) == pytest.approx(min(steps))
        page.get_by_text("Logarithmic axis").first.click()
        logarithmic = ticks()
        assert logarithmic[0] > 0
        assert logarithmic != linear
        switch.press("Space")
        assert ticks() == linear
        page.get_by_text("Logarithmic axis").first.click()
        page.emulate_media(media="print")
        assert ticks() == logarithmic  # paper has the chosen axis
        assert switch.is_hidden()


@pytest.mark.parametrize("name", ["seeds", "records", "hostile"])
def test_every_cell_of_every_table_is_readable_on_a_phone(browser: Browser, pages: dict[str, str], name: str) -> None:
    with Opened(browser, pages[name], "phone") as opened:
        page = opened.page
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        problems = page.evaluate(
            """() => [...document.querySelectorAll('td, tbody th')].map((one) => {
                if (!one.textContent.trim()) return null;
                const box = one.getBoundingClientRect(), style = getComputedStyle(one);
                const label = getComputedStyle(one, '::before').content;
                const isCut = one.scrollWidth > one.clientWidth + 1;
                const isOutside = box.left < 0 || box.right > document.documentElement.clientWidth;
                const isSmall = parseFloat(style.fontSize) < 11 || box.width < 100;
                const hasName = label !== 'none' && label !== '""';
                return isCut || isOutside || isSmall || !hasName ? one.textContent.slice(0, 40) : null;
            }).filter((one) => one !== null)"""
        )
        assert problems == []
        regions = page.evaluate(
            "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        )
        assert regions == 0


def test_a_table_keeps_its_meaning_on_a_phone(browser: Browser, pages: dict[str, str]) -> None:
    with Opened(browser, pages["records"], "phone") as opened:
        page = opened.page
        page.locator("section.configuration details > summary").first.click()
        assert page.get_by_role("table").count() > 0
        assert page.get_by_role("cell").count() > 10


def test_the_worst_result_is_first(browser: Browser, pages: dict[str, str]) -> None:
    with Opened(browser, pages["seeds"]) as opened:
        for summary in opened.page.locator("ul.summary").all():
            words = [text.split()[-1] for text in summary.locator("> li > .badge").all_inner_texts()]
            assert words == sorted(words, key=GRADES.index)
        firsts = [one.locator("> li > .badge").first.inner_text() for one in opened.page.locator("ul.summary").all()]
        ranks = [GRADES.index(text.split()[-1]) for text in firsts]
        assert ranks == sorted(ranks)
        assert len(set(ranks)) > 1
