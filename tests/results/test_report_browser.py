"""The report in a headless Chromium. CI installs one; elsewhere these run where one is found, and say so where not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from papd.results.report import write_report
from tests import browser
from tests.browser import Page
from tests.synthetic_runs import write_run, write_sweep

RIGHT, ESCAPE, ENTER, SPACE = "\ue014", "\ue00c", "\ue007", " "

pytestmark = [
    pytest.mark.skipif(
        browser.missing() is not None and "CI" not in os.environ, reason=str(browser.missing())
    ),
    pytest.mark.xdist_group("browser"),
]

CENTRES = "return document.querySelectorAll(`path.centre[data-group='${arguments[0]}']`).length"
COLUMN = """
  const table = document.getElementById(arguments[0]);
  return [...table.tBodies[0].rows].map((row) => row.cells[arguments[1]].textContent);
"""


@pytest.fixture(scope="module")
def window() -> Iterator[Page]:
    with browser.browser() as page:
        yield page


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    write_sweep(folder / "sweep", seeds=3, iterations=30)
    write_report([folder / "sweep"], folder / "report.html")
    return (folder / "report.html").as_uri()


@pytest.fixture
def page(window: Page, address: str) -> Page:
    window.open(address)
    return window


def test_loads_without_a_word_on_the_console_and_draws(page: Page, tmp_path: Path) -> None:
    assert page.console() == []
    assert page.run("return document.querySelectorAll('.chart svg').length") == 8
    assert [page.run(CENTRES, group) for group in range(3)] == [8, 8, 8]
    assert page.run("return document.querySelectorAll('line.limit').length") == 2
    page.screenshot(tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 20_000


def test_legend_click_hides_a_curve_and_shows_it_again(page: Page) -> None:
    page.click("#legend button:nth-of-type(2)")
    assert [page.run(CENTRES, group) for group in range(3)] == [8, 0, 8]
    assert page.run("return document.querySelectorAll('path.band[data-group=\"1\"]').length") == 0
    pressed = (
        "return [...document.querySelectorAll('#legend button')].map((b) => b.getAttribute('aria-pressed'))"
    )
    assert page.run(pressed) == ["true", "false", "true"]
    page.type("#legend button:nth-of-type(2)", SPACE)
    assert page.run(CENTRES, 1) == 8


def test_hiding_a_curve_gives_its_room_to_the_others(page: Page) -> None:
    height = "return document.querySelectorAll('path.centre[data-group=\"1\"]')[3].getBBox().height"
    before = page.run(height)
    page.click("#legend button:nth-of-type(1)")
    assert page.run(height) > before


def test_a_legend_click_with_shift_shows_one_group_alone_and_then_all(page: Page) -> None:
    shift = "document.querySelectorAll('#legend button')[2].dispatchEvent(new MouseEvent('click', {shiftKey: true}))"
    page.run(shift)
    assert [page.run(CENTRES, group) for group in range(3)] == [0, 0, 8]
    page.run(shift)
    assert [page.run(CENTRES, group) for group in range(3)] == [8, 8, 8]


def test_single_runs_are_drawn_when_asked_for(page: Page) -> None:
    count = "return document.querySelectorAll('path.single').length"
    assert page.run(count) == 0
    page.click("#legend input")
    assert page.run(count) == 2 * 4 * 3 * 3


def test_sorting_is_numeric_turns_round_and_works_from_the_keyboard(page: Page) -> None:
    heads = page.run("return [...document.querySelectorAll('#runs th')].map((head) => head.textContent)")
    column = heads.index("Return")
    button = f"#runs th:nth-of-type({column + 1}) button"
    page.click(button)
    values = [float(text) for text in page.run(COLUMN, "runs", column)]
    assert values == sorted(values)
    assert len(set(values)) > 5
    assert (
        page.run("return document.querySelectorAll('#runs th')[arguments[0]].ariaSort", column) == "ascending"
    )
    page.type(button, ENTER)
    assert [float(text) for text in page.run(COLUMN, "runs", column)] == values[::-1]
    assert page.run("return document.querySelectorAll('#runs th[aria-sort]').length") == 1


def test_sorting_steps_is_by_number_not_by_text_and_nothing_comes_last(window: Page, tmp_path: Path) -> None:
    for seed, iterations in enumerate((3, 20, 100)):
        write_run(tmp_path / str(seed), {"seed": seed, "cost_limit": []}, iterations=iterations)
    write_report([tmp_path], tmp_path / "report.html")
    window.open((tmp_path / "report.html").as_uri())
    heads = window.run("return [...document.querySelectorAll('#runs th')].map((head) => head.textContent)")
    steps, excess = heads.index("Steps"), heads.index("Violation")
    window.click(f"#runs th:nth-of-type({steps + 1}) button")
    assert window.run(COLUMN, "runs", steps) == ["12,000", "80,000", "400,000"]
    assert window.run(COLUMN, "runs", excess) == ["–", "–", "–"]


def test_pointing_at_a_chart_reads_it(page: Page) -> None:
    page.hover(".chart svg")
    tip = page.run("return document.querySelector('.tip').innerText")
    assert "steps" in tip
    assert "mean [min, max]" in tip
    assert "of 3 runs" not in tip
    assert all(name in tip for name in ("InvLin 0.001/3", "InvQua 0.015/6", "constant 0.0005"))
    # A number is never broken over lines, however long the name beside it.
    cells = "[...document.querySelectorAll('.tip tr:first-child td')]"
    wraps = page.run(f"return {cells}.map((cell) => getComputedStyle(cell).whiteSpace)")
    assert wraps == ["normal", "nowrap", "nowrap"]


def test_arrow_keys_read_a_chart_and_escape_leaves_it(page: Page) -> None:
    page.type(".chart svg", RIGHT + RIGHT + RIGHT)
    assert page.run("return document.querySelector('.tip').innerText").startswith("12,000 steps")
    page.type(".chart svg", ESCAPE)
    assert page.run("return document.querySelector('.tip').hidden") is True


def test_dragging_enlarges_a_part_in_every_chart_of_the_environment(page: Page) -> None:
    labels = """
      const charts = [...document.querySelectorAll('.chart')];
      return charts.map((chart) => chart.querySelector('svg text[text-anchor=middle]').textContent);
    """
    before = page.run(labels)
    page.drag(".chart svg", -0.1, 0.2)
    after = page.run(labels)
    assert after[:4] != before[:4]
    assert after[4:] == before[4:]
    page.click("#panels > button")
    assert page.run(labels) == before


def test_hostile_names_are_shown_as_text_and_run_nothing(window: Page, tmp_path: Path) -> None:
    name = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"&lt;☃"
    for seed, extra in enumerate(("", name)):
        config = {"env": name, "seed": 0, "note": extra, "steps": seed + 1}
        write_run(tmp_path / f"{seed}{name.replace('/', '∕')}", config, iterations=4)
    write_report([tmp_path], tmp_path / "report.html")
    window.open((tmp_path / "report.html").as_uri())
    window.hover(".chart svg")
    assert not window.alert()
    assert window.console() == []
    assert window.run("return document.querySelector('#panels h3').textContent") == name
    assert window.run("return document.querySelectorAll('img').length") == 0
    legend = window.run("return [...document.querySelectorAll('#legend button')].map((b) => b.textContent)")
    assert any(name in text for text in legend)
    assert name in window.run("return document.querySelector('.tip').textContent")
    assert any(name.replace("/", "∕") in cell for cell in window.run(COLUMN, "runs", 0))


def test_an_injected_script_would_not_run(page: Page) -> None:
    """The policy stops what escaping might one day miss."""
    page.run(
        "const s = document.createElement('script'); s.textContent = 'window.hit = 1'; document.body.append(s)"
    )
    assert page.run("return window.hit") is None
    assert any("Content Security Policy" in line for line in page.console())


def test_fits_a_narrow_window_without_scrolling_sideways(address: str) -> None:
    with browser.browser(width=520, height=900) as narrow:
        narrow.open(address)
        wide = narrow.run(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    assert wide <= 0
