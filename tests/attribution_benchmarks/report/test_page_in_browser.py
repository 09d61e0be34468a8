"""The report in a real browser: Chromium without a window, on a screen of a desk and of a phone.

The browser is the system's (Debian: apt-get install chromium) or Playwright's own (python -m playwright install
chromium). Where there is none these tests are left out, and the summary says so; .ci/run installs one.
"""

import copy
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

from attribution_benchmarks.report import matrix
from attribution_benchmarks.report.page import PAGES
from attribution_benchmarks.report.page import pages as render_pages
from attribution_benchmarks.report.results import ReportData, Result

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 375, "height": 812}
OWN = "twin"  # scored in two of three benchmarks, as a user's own method may be


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
        if not found and not os.path.exists(playwright.chromium.executable_path):
            pytest.skip(
                "the report was NOT tried in a browser: apt-get install chromium, or playwright install chromium"
            )
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def written(judged, documents, columns, groups, drawn_inputs, tmp_path_factory, definitions):
    """Return a function that writes the report with some methods' titles, and returns the address of its first page."""
    directory = tmp_path_factory.mktemp("report")
    documents = copy.deepcopy(documents)
    for row in documents[0]["rows"]:
        row["paper"] = 42.12
    built = matrix.build(documents, columns, {(OWN, "bim"): "too slow"})
    picture = directory / "examples.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (600, 2000, 3), np.uint8)).save(picture)
    results = [
        Result(document["benchmark"], document["benchmark"], f"Table of {document['benchmark']}", "A note.", document,
               "a line that is long enough to be wider than a phone " * 8, [picture],
               examples=drawn_inputs[document["benchmark"]])
        for document in documents
    ]  # fmt: skip
    settings = {"command": "python scripts/reproduce_tables.py " + "--methods=a.py:b " * 20, "lead": "", "footer": ""}

    def write(titles):
        folder = tmp_path_factory.mktemp("pages")
        shutil.copy(picture, folder)
        notes = ["/a/long/path/without/any/space/" * 4]
        data = ReportData(results, groups, definitions, columns, titles, settings, custom=[OWN], notes=notes)
        for name, text in render_pages(built, matrix.agreement(built), judged, data).items():
            (folder / name).write_text(text, encoding="utf-8")
        return (folder / "index.html").as_uri()

    return write


@pytest.fixture(scope="module")
def address(written):
    return written({})


def address_of(address, name):
    """Return the address of another page of the report."""
    return address.replace("index.html", name)


ATTACK = "\"'><img src=x onerror=\"attacked = 1\"><script>attacked = 1</script></script><svg onload='attacked = 1'>"


def test_names_are_shown_and_not_run(browser, documents, columns, drawn_inputs, definitions, tmp_path):
    renamed = json.loads(json.dumps(documents).replace('"twin"', json.dumps(ATTACK)))
    built = matrix.build(renamed, columns)
    results = [
        Result(document["benchmark"], ATTACK, ATTACK, ATTACK, document, ATTACK, [],
               examples=drawn_inputs[document["benchmark"]])
        for document in renamed
    ]  # fmt: skip
    settings = {"command": ATTACK, "lead": ATTACK, "footer": ATTACK}
    titles = {"best": ATTACK}
    data = ReportData(results, {}, definitions, columns, titles, settings, custom=[ATTACK], notes=[ATTACK])
    for name, text in render_pages(built, matrix.agreement(built), {}, data).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        page, said, requests = browser.new_page(), [], []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("request", lambda request, requests=requests: requests.append(request.url))
        page.goto((tmp_path / name).as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        for selector in ("#matrix-table button.cell", "#matrix-table th button"):
            if page.locator(selector).count():
                page.locator(selector).first.click()
        page.wait_for_timeout(200)
        assert page.evaluate("typeof attacked") == "undefined" and said == []
        assert ATTACK in page.evaluate("document.body.textContent")
        assert [url for url in requests if not url.startswith("data:")] == [page.url.partition("#")[0]]
        page.close()


@pytest.fixture
def opened(browser, address):
    """Open the page; on leaving, nothing may have been said on the console or asked from outside."""
    contexts = []

    def open_page(viewport, scheme="light", name="index.html", scripts=True):
        context = browser.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=scripts)
        page = context.new_page()
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address_of(address, name))
        contexts.append((context, said, asked, address_of(address, name)))
        return page

    yield open_page
    for context, said, asked, own in contexts:
        context.close()
        assert said == []
        assert [url for url in asked if not url.startswith("data:")] == [own]


def luminance(colour):
    channels = [float(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("viewport", "scheme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide", "narrow"])
def test_every_page_fits_its_screen_and_can_be_read(opened, viewport, scheme, name):
    page = opened(viewport, scheme, f"{name}.html")
    assert "Attribution methods" in page.title()
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    images = page.evaluate("Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))")
    assert all(images) and (len(images) >= 3 or name in ("examples", "about"))
    assert page.locator("nav a[aria-current]").all_inner_texts() == [PAGES[name]]
    # What is wider than the screen scrolls by itself, and can be reached with the keyboard.
    boxes = page.locator(".scroll, pre").evaluate_all("all => all.map(one => [one.tabIndex, one.ariaLabel])")
    assert all(place == 0 and label for place, label in boxes)

    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper > 0.5) == (scheme == "light")
    for selector, least in (("body", 7), ("nav a", 4.5), (".kicker", 4.5), (".foot", 4.5)):
        ink = luminance(page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).color"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= least, selector

    if name == "index":
        page.locator("#matrix-table button.cell").first.click()
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe was NOT run: pip install axe-playwright-python"
    )
    # Only colours and sizes differ on the other screen.
    only = None if scheme == "light" else {"runOnly": ["color-contrast", "target-size", "meta-viewport"]}
    found = axe.Axe().run(page, options=only).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []


LEAVE_THEIR_BOX = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode, range = document.createRange();
    let box = text.parentElement;
    if (!text.data.trim() || box.closest(".scroll, pre, svg, script, style, select, .unseen")) { continue; }
    while (getComputedStyle(box).display === "inline") { box = box.parentElement; }
    range.selectNodeContents(text);
    if (range.getBoundingClientRect().right > box.getBoundingClientRect().right + 1) { found.push(text.data); }
  }
  return found;
}"""


def test_long_names_stay_in_their_box(browser, written):
    titles = {OWN: "contrastive_smooth_of_many_copies", "best": "SquaredSmoothGradVarGrad", "bad": "sehrlangesWort" * 4}
    address = written(titles)
    page = browser.new_page()
    for name in ("index", "methods", "examples"):
        page.goto(address_of(address, f"{name}.html"))
        if name == "examples":
            page.locator("#look-input").select_option(label="Is it <b>red</b>?")
            page.wait_for_function("document.querySelectorAll('#look-strip button').length === 4")
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert all(title in page.inner_text("main") for title in titles.values())
            assert page.evaluate(LEAVE_THEIR_BOX) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_the_first_page_is_short_and_marks_the_custom_method(opened):
    page = opened(WIDE)
    assert page.evaluate("document.documentElement.scrollHeight") <= 8 * WIDE["height"]
    assert page.evaluate("document.body.innerText.split(/\\s+/).length") <= 2500
    marked = page.locator("#matrix-table tr", has=page.locator(".badge"))
    assert marked.count() == 1 and OWN in marked.first.inner_text()
    assert page.locator("#yours tbody tr.worse, #yours tbody tr.better").count() > 0
    left = page.locator("#matrix-table tbody th").first
    before = left.bounding_box()["x"]
    page.evaluate("document.querySelector('#matrix .scroll').scrollLeft = 200")
    assert left.bounding_box()["x"] == pytest.approx(before, abs=1)  # names stay while figures scroll


def test_on_a_desk_a_metrics_table_shows_all_its_columns(opened):
    page = opened(WIDE, name="tables.html")
    assert page.locator("svg.bar .own").count() == 3  # the columns it was scored in
    frames = page.locator(".metric .scroll")
    assert "Paper" in "".join(frames.locator("thead").all_inner_texts())
    for width in (1024, 1280, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        cut_off = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel)"
        assert frames.evaluate_all(cut_off) == []


@pytest.mark.parametrize("name", PAGES)
def test_in_print_nothing_is_cut_off(opened, name):
    page = opened(WIDE, name=f"{name}.html")
    assert page.locator("details[open]").count() == 0
    printed = page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF") and len(printed) < 5_000_000
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) < 10
    assert page.locator("details.print:not([open])").count() == 0
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})  # the text's width on A4
    assert page.evaluate("document.documentElement.scrollWidth") <= 760
    assert not page.locator("nav").first.is_visible()


def column(page, place):
    return page.locator(f"#matrix-table tbody:first-of-type tr td:nth-of-type({place})").evaluate_all(
        "cells => cells.map(cell => cell.dataset.value)"
    )


def test_the_matrix_sorts_by_any_column_with_blanks_last_and_says_by_which(opened, built):
    page = opened(WIDE)
    heads = page.locator("#matrix-table thead th[scope=col]")
    names = page.locator("#matrix-table tbody:first-of-type th").all_inner_texts()
    assert heads.nth(1).get_attribute("aria-sort") == "descending"
    for place in (*range(2, heads.count()), 1):
        values = column(page, place)
        heads.nth(place).locator("button").click()
        numbers = [float(value) for value in column(page, place) if value]
        assert numbers == sorted(numbers, reverse=True) and heads.nth(place).get_attribute("aria-sort") == "descending"
        heads.nth(place).locator("button").press("Enter")
        found = column(page, place)
        assert [float(value) for value in found if value] == sorted(numbers)
        assert sorted(found) == sorted(values) and all(found[: len(numbers)])
        assert page.locator("#matrix-table th[aria-sort]").count() == 1
        label = "metrics passed" if place == 1 else built.columns[place - 2].label
        assert page.locator("#sorted").inner_text().startswith(label)
    heads.first.locator("button").click()
    assert page.locator("#matrix-table tbody:first-of-type th").all_inner_texts() == sorted(names, key=str.lower)
    # The controls below the line stay where they are.
    assert page.locator("#matrix-table tbody.controls tr").count() == 2


def test_bars_sort_with_their_rows(opened):
    page = opened(WIDE, name="tables.html")
    table = page.locator("#svea-drop ~ .scroll table.sortable").first
    table.locator("thead button", has_text="Score").click()
    shown = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [Number(row.cells[1].dataset.value),"
        " row.querySelector('svg.bar rect').getBoundingClientRect().width])"
    )
    values, widths = zip(*shown, strict=True)
    assert list(values) == sorted(values, reverse=True)
    assert len(set(np.sign(values))) == 1 and np.argmax(np.abs(values)) == np.argmax(widths)


def test_cells_show_their_interval_and_tests_and_the_matrix_can_be_filtered(opened, built):
    page = opened(WIDE)
    assert page.locator("#matrix-table button.cell[tabindex='0']").count() == 1  # one stop for the tabulator
    cell = page.locator("#matrix-table tbody:first-of-type button.cell").first
    cell.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    sheet = page.locator("#sheet")
    row = built.cells[built.methods[1], built.columns[1].key]
    assert f"95 % interval {row['low']:.1f} to {row['high']:.1f}" in sheet.inner_text()
    assert "“random”" in sheet.inner_text() and "all others are significantly better or worse" in sheet.inner_text()
    page.keyboard.press("Escape")
    assert not sheet.is_visible() and page.evaluate("document.activeElement.dataset.place") == "1"
    # A place that is blank says why.
    page.locator(f"#matrix-table button.cell[data-method={OWN}]").nth(2).click()
    assert "No score: too slow" in sheet.inner_text()
    page.keyboard.press("Escape")

    # The filters show a part of the matrix.
    rows = page.locator("#matrix-table tbody:first-of-type tr:visible")
    heads = page.locator("#matrix-table thead tr:nth-child(2) th:visible")
    assert (rows.count(), heads.count()) == (4, 4)
    page.locator("[data-filter=group][value=SVEA]").uncheck()
    assert heads.count() == 2 and page.locator("#filtered").inner_text() == "4 methods, 2 metrics"
    assert rows.first.locator("td:visible").count() == 3
    page.locator("#find-method").fill("oo")
    assert rows.count() == 1 and rows.first.inner_text().startswith("good")
    page.locator("[data-filter=family][value=yours]").uncheck()
    page.locator("#find-method").fill("")
    assert rows.count() == 3
    page.locator("details.drop summary").click()
    page.locator("[data-filter=column]").last.uncheck()
    assert heads.count() == 1


def matrix_view(page):
    rows = page.locator("#matrix-table tbody:first-of-type tr:visible th").all_inner_texts()
    heads = page.locator("#matrix-table thead tr:nth-child(2) th:visible").all_inner_texts()
    return rows, heads, page.locator("#find-method").input_value()


def test_the_address_keeps_the_filters_and_the_order_of_the_matrix(browser, opened, address):
    page = opened(WIDE)
    whole = matrix_view(page)
    page.locator("#matrix-table thead th[scope=col]").nth(2).locator("button").click()
    page.locator("[data-filter=group][value=BIM]").uncheck()
    page.locator("[data-filter=family][value=yours]").uncheck()
    page.locator("details.drop summary").click()
    page.locator("[data-filter=column]").first.uncheck()
    page.locator("#find-method").fill("o")
    view, link = matrix_view(page), page.url
    assert view[0] != whole[0] and len(view[1]) == len(whole[1]) - 2 and view[2] == "o"
    assert link.startswith(address + "#matrix?")

    context = browser.new_context(viewport=WIDE)
    other, said = context.new_page(), []
    other.on("console", lambda message: said.append(message.text))
    other.on("pageerror", lambda error: said.append(str(error)))
    other.goto(link)
    assert matrix_view(other) == view and other.url == link
    assert other.locator("#matrix-table th[aria-sort]").count() == 1
    other.goto(address + "#choices")  # an anchor of the page changes no view
    assert matrix_view(other) == view
    hostile = (
        "hide_group=%E0%A4%A&hide_column=0&sort=__proto__&order=descending&sort=1&__proto__=1&" + "hide_family=x&" * 99
    )
    for unknown in ("", hostile, "sort=svea+drop&order=sideways"):
        other.goto(f"{address}#matrix?{unknown}")
        other.wait_for_function("document.querySelectorAll('[data-filter]:not(:checked)').length === 0")
        assert matrix_view(other) == whole
    other.goto(f"{address}#matrix?find={ATTACK.replace('#', '')}{'y' * 1000}")
    other.wait_for_function("document.getElementById('find-method').value.length === 100")
    assert other.evaluate("typeof attacked") == "undefined" and said == []
    context.close()


def test_single_inputs_show_the_maps_of_all_methods_and_what_made_a_method_lose(opened, groups, judged):
    page = opened(WIDE, name="examples.html")
    page.locator("#look-input").select_option(label="Is it <b>red</b>?")
    told, slider = page.locator("#look-told"), page.locator("#look-method")
    page.wait_for_function("document.querySelectorAll('#look-strip button').length === 4")
    slider.focus()
    seen = []
    slider.press("Home")
    for _ in range(4):
        seen.append(told.locator("b").inner_text())
        assert page.locator("#look-strip button[aria-pressed=true] b").inner_text() == seen[-1]
        slider.press("ArrowRight")
    assert sorted(seen) == ["bad", "best", "good", "twin"] and seen[0] == "best"
    # The map is laid over: without strength it is the picture alone.
    pixels = "document.querySelector('#look-stage canvas').getContext('2d').getImageData(9, 9, 1, 1).data.join()"
    over = page.evaluate(pixels)
    page.locator("#look-strength").fill("0")
    page.wait_for_function(f"{pixels} !== '{over}'")
    assert page.locator("#look-stage .over path").count() == 1
    page.locator("#look-truth").uncheck()
    page.wait_for_function("document.querySelectorAll('#look-stage .over').length === 0")
    page.locator("#look-stage button").first.press("Enter")
    assert page.locator("#larger").is_visible() and page.locator("#larger canvas").bounding_box()["width"] > 400
    page.keyboard.press("Escape")
    assert not page.locator("#larger").is_visible()

    # The inputs that made a method lose are its largest losses.
    page.locator("#drill-column").select_option(label="CLEVR-XAI mass, simple")
    page.locator("#drill-first").select_option("good")
    page.locator("#drill-second").select_option("best")
    (group,) = groups["clevr_xai"]
    leads = np.array(group.values["good"]) - np.array(group.values["best"])
    worst = [group.inputs[place] for place in np.argsort(leads)[:6]]
    assert page.locator("#drill-lost button b").all_inner_texts() == worst
    assert f"better on {(leads > 0).sum()}, worse on {(leads < 0).sum()}" in page.locator("#drill-told").inner_text()
    page.wait_for_function("document.querySelectorAll('#drill-lost canvas').length === 6")
    test = judged["clevr_xai mass simple"].lead("good", "best")
    interval = f"95 % interval {test.low:+.3f} to {test.high:+.3f}.".replace("-", "−")
    assert interval in page.locator("#drill-told").inner_text()
    # Where maps are stored, both are next to the input, with one scale above and below the bars.
    page.wait_for_function("document.querySelectorAll('#drill-maps canvas').length === 3")
    assert "best" in page.locator("#drill-maps li").inner_text()
    top, zero, bottom = page.locator("#drill-scale span").all_inner_texts()
    assert zero == "0" and top[1:] == bottom[1:] == f"{np.abs(leads).max():.3f}"


def test_a_link_opens_an_example_or_a_comparison(browser, opened, address):
    page = opened(WIDE)
    page.locator("#matrix-table button.cell[data-method=good]").last.click()
    link = page.locator("#sheet a.button").get_attribute("href")
    context = browser.new_context(viewport=WIDE)
    other, said = context.new_page(), []
    other.on("console", lambda message: said.append(message.text))
    other.on("pageerror", lambda error: said.append(str(error)))
    other.goto(address_of(address, link))
    assert other.locator("#drill-told").inner_text().startswith("good against random: better on")
    other.locator("#drill-second").select_option("bad")
    assert other.url.endswith("&first=good&second=bad")
    told = other.locator("#drill-told").inner_text()
    other.reload()
    assert other.locator("#drill-told").inner_text() == told
    other.goto(address_of(address, "methods.html"))
    thumb = other.locator("a.thumb").first
    name = thumb.locator("xpath=ancestor::article").locator("h2").inner_text().split()[0]
    other.goto(address_of(address, thumb.get_attribute("href")))
    assert other.locator("#look-told b").inner_text() == name
    for hostile in ("#look?input=__proto__&method=x", "#inputs?column=__proto__&first=1", "#look?input=-1"):
        other.goto(address_of(address, "about.html"))
        other.goto(address_of(address, "examples.html") + hostile)
        assert other.locator("#look-told b").inner_text() and other.locator("#drill-told").inner_text()
    assert said == []
    context.close()


def test_without_scripts_the_pages_say_the_same(opened, address):
    folder = pathlib.Path(address.removeprefix("file://")).parent
    assert {path.suffix for path in folder.iterdir()} == {".html", ".png"}
    page = opened(WIDE, scripts=False)
    assert page.locator("#matrix-table tbody:first-of-type tr").count() == 4
