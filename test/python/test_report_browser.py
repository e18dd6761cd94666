"""The page of ``vta-report`` in a real browser: by keyboard, in the dark, in a narrow window."""

import re
from collections.abc import Iterator
from pathlib import Path

import encoder
import pytest
from digits_model import MODEL, save_images

import vtac
from vtac.tools.reports.layer_errors import LayerError

for package in ("jinja2", "vl_convert"):
    pytest.importorskip(package, reason=f"{package} is not installed")
browser = pytest.importorskip("browser", reason="selenium is not installed")
if not browser.is_there():
    pytest.skip("there is no chromium with a chromedriver", allow_module_level=True)

find, press, wait, Keys = browser.find, browser.press, browser.wait, browser.Keys

PLOTS = ("timeline", "scratchpads", "dram", "roofs", "errors")

CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (rgb) => {
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = rgb.slice(0, 3).map((v) => linear(v / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (found) => {
  for (let at = found; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const low = [];
for (const found of document.querySelectorAll("body *")) {
  if (![...found.childNodes].some((each) => each.nodeType === 3 && each.data.trim())) continue;
  if (!found.offsetParent || found.closest("svg")) continue;
  const ends = [light(parse(getComputedStyle(found).color)), light(behind(found))];
  const [a, b] = ends.sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) low.push(`${found.tagName} ${found.className} ${found.textContent}: ${ratio}`);
}
return low;
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of one layer of an encoder with errors of layers."""
    model, samples = encoder.build(1, 16, 32, 2), encoder.samples(2, 16, 32)
    module = vtac.compile(model, "pynq", samples, keep_ir=["imported", "te", "vta"])
    names = [each.node for each in module.explain if each.macs]
    errors = [LayerError(name, (), 30.0 + i, 40.0) for i, name in enumerate(names)]
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(vtac.report_html(module, title="encoder", layer_errors=errors), "utf-8")
    return file


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Chrome]:
    found = browser.opened(tmp_path_factory.mktemp("browser"))
    yield found
    found.quit()


@pytest.fixture
def page(driver: browser.Chrome, path: Path) -> browser.Chrome:
    """The page, freshly opened in a wide window, by day, with its plots drawn."""
    browser.resize(driver, 1300)
    browser.in_colours(driver, "light")
    driver.get(path.as_uri())
    wait(driver, lambda: all(find(driver, f"#{plot} svg") for plot in PLOTS))
    return driver


def focused(driver: browser.Chrome) -> str:
    """The id of what has the focus, or the text of what has none."""
    active = driver.switch_to.active_element
    return active.get_attribute("id") or active.text


def rows(driver: browser.Chrome) -> list[str]:
    """The names of the nodes that are shown, in order."""
    script = "return [...document.querySelectorAll('#nodes tbody tr:not([hidden]) .node')]"
    return driver.execute_script(f"{script}.map((each) => each.textContent)")


def test_nothing_fails_and_nothing_is_fetched(page: browser.Chrome) -> None:
    logged = page.get_log("browser")
    assert not [entry for entry in logged if entry["level"] in ("SEVERE", "WARNING")]
    asked = [entry["message"] for entry in page.get_log("performance")]
    sent = [text for text in asked if '"Network.requestWillBeSent"' in text]
    assert not [text for text in sent if '"url":"http' in text or '"url":"ws' in text]


def test_the_page_of_a_cluster_shows_every_core(driver: browser.Chrome, tmp_path: Path) -> None:
    save_images(tmp_path / "samples.npz", 8)
    file = tmp_path / "report.html"
    module = vtac.compile(MODEL, "cluster-2", tmp_path / "samples.npz")
    file.write_text(vtac.report_html(module), "utf-8")
    browser.in_colours(driver, "dark")
    driver.get(file.as_uri())
    wait(driver, lambda: find(driver, "#timeline svg") and find(driver, "#roofs svg"))
    shown = find(driver, "#timeline svg")[0].text.split("\n")
    assert {"0 layer", "1 layer", "0 compute", "1 compute", "1 store"} <= set(shown)
    logged = driver.get_log("browser")
    assert not [entry for entry in logged if entry["level"] in ("SEVERE", "WARNING")]


def test_the_filter_finds_nodes(page: browser.Chrome) -> None:
    count = len(rows(page))
    find(page, "#find")[0].send_keys("softmax")
    assert rows(page) == ["layer0.attention.softmax"]
    assert find(page, "#shown")[0].text == f"1 of {count} nodes"
    find(page, "#find")[0].send_keys(" nowhere")
    assert rows(page) == [] and find(page, "#nothing")[0].is_displayed()
    find(page, "#find")[0].clear()
    find(page, "input[value=host]")[0].click()
    hosted = rows(page)
    find(page, "input[value=accelerator]")[0].click()
    assert sorted(hosted + rows(page)) == sorted(set(hosted + rows(page)))
    assert len(hosted) + len(rows(page)) == count and "layer0.attention.softmax" in hosted


def test_a_node_is_found_and_opened_by_keyboard(page: browser.Chrome) -> None:
    press(page, "/")
    assert focused(page) == "find"
    press(page, "attention.scores", Keys.ENTER)
    assert focused(page) == "layer0.attention.scores"
    press(page, Keys.ENTER)
    panel = find(page, "#panel")[0]
    assert panel.is_displayed() and focused(page) == "panel"
    assert find(page, "#panel-title")[0].text == "layer0.attention.scores"
    for part in ("lower bound", "Schedule", "imported", "te", "vta", "Accuracy"):
        assert part in panel.text
    press(page, Keys.ESCAPE)
    assert not panel.is_displayed() and focused(page) == "layer0.attention.scores"


def test_tab_enters_the_list_once_and_arrows_move_in_it(page: browser.Chrome) -> None:
    names = rows(page)
    page.execute_script("document.querySelector('[data-sort=waits]').focus()")
    press(page, Keys.TAB)
    assert focused(page) == names[0]
    press(page, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert focused(page) == names[1]
    press(page, Keys.END)
    assert focused(page) == names[-1]
    press(page, Keys.TAB)
    assert focused(page) not in names


def test_the_panel_says_why_a_node_is_on_the_host(page: browser.Chrome) -> None:
    find(page, "#find")[0].send_keys("softmax")
    find(page, "#nodes tbody tr:not([hidden]) .node")[0].click()
    text = find(page, "#panel .why")[0].text
    assert "Why on the host:" in text and "Way out:" in text
    (link, *_) = find(page, "#panel dl .link")
    name = link.text
    link.click()
    assert find(page, "#panel-title")[0].text == name
    find(page, "#close")[0].click()
    assert not find(page, "#panel")[0].is_displayed()


def test_nodes_are_sorted_by_cycles(page: browser.Chrome) -> None:
    names = rows(page)
    header = find(page, "[data-sort=cycles]")[0]
    header.click()
    assert (
        page.execute_script("return document.querySelector('th.cycles').ariaSort") == "descending"
    )
    script = "return data.nodes.map((node) => [node.cost ? node.cost.cycles : -1, node.name])"
    cycles = {name: count for count, name in page.execute_script(script)}
    found = [cycles[name] for name in rows(page)]
    assert found == sorted(found, reverse=True) and found[0] > found[5]
    find(page, "[data-sort=order]")[0].click()
    assert rows(page) == names


def test_the_timeline_shows_a_layer(page: browser.Chrome) -> None:
    window = find(page, "#window-text")[0]
    whole = window.text
    choose = "const box = document.getElementById('window');"
    choose += "box.value = [...box.options].at(-1).value; box.dispatchEvent(new Event('change'));"
    page.execute_script(choose)
    shown = window.text
    assert shown != whole
    find(page, "#timeline")[0].send_keys("+")
    assert window.text not in (whole, shown)
    find(page, "#timeline")[0].send_keys(Keys.HOME)
    assert window.text == whole
    wait(page, lambda: find(page, "#timeline svg"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out(page: browser.Chrome, scheme: str) -> None:
    """The contrast of the Web Content Accessibility Guidelines, level AA: 4.5."""
    script = "return getComputedStyle(document.body).backgroundColor"
    before = page.execute_script(script)
    browser.in_colours(page, scheme)
    assert (page.execute_script(script) == before) == (scheme == "light")
    find(page, "#n0 .node")[0].click()
    assert page.execute_script(CONTRAST) == []
    ink = "return getComputedStyle(document.body).color"
    label = (
        "return getComputedStyle(document.querySelector('#errors .role-legend-label text')).fill"
    )
    wait(page, lambda: page.execute_script(label) == page.execute_script(ink))
    assert not [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.mark.parametrize("width", [360, 700, 1024])
def test_narrow_windows_do_not_scroll_sideways(page: browser.Chrome, width: int) -> None:
    browser.resize(page, width)
    wait(page, lambda: page.execute_script("return innerWidth") == width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    find(page, "#n0 .node")[0].click()
    assert find(page, "#panel")[0].size["width"] <= width
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_everything_that_takes_the_focus_has_a_name(page: browser.Chrome) -> None:
    find(page, "#n0 .node")[0].click()
    tree = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    nameless = []
    for node in tree:
        properties = {
            each["name"]: each["value"].get("value") for each in node.get("properties", ())
        }
        role = node.get("role", {}).get("value")
        name = node.get("name", {}).get("value", "")
        if properties.get("focusable") and not re.search(r"\w", name):
            nameless.append(role)
    assert set(nameless) <= {"generic", None, "Pre"}
    roles = {node.get("role", {}).get("value") for node in tree}
    assert {"dialog", "table", "navigation", "main", "search", "heading", "status"} <= roles
