"""The page in a browser: no error, and every control works, by mouse, by keyboard, on a phone."""

from __future__ import annotations

from typing import Any

import pytest

from dcfsc.runs.folder import Run

pytestmark = pytest.mark.slow

Browser = Any  # of conftest, which is no module to import from


@pytest.mark.parametrize("run", ["image_run", "feature_run"])
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "light"), (390, "dark")])
def test_page_opens_without_a_problem_and_without_overflow(
    browser: Browser, run: str, width: int, theme: str, request: pytest.FixtureRequest
) -> None:
    browser.open(request.getfixturevalue(run).folder / "report.html", width, theme=theme)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.run("document.querySelectorAll('.expand').forEach(b => b.click())")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.problems == []
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(251, 250, 247)", "dark": "rgb(19, 23, 26)"}[theme]


def test_cluster_expands_and_closes(browser: Browser, image_run: Run) -> None:
    browser.open(image_run.folder / "report.html")
    state = """(() => {
        const b = document.querySelector('.expand'), all = document.getElementById('all0');
        return [b.getAttribute('aria-expanded'), all.hidden, all.childElementCount];
    })()"""
    assert browser.run(state) == ["false", True, 0]
    browser.run("document.querySelector('.expand').focus()")
    browser.press("Enter")
    size = int((image_run.labels == 0).sum())
    assert browser.run(state) == ["true", False, size]
    browser.run("document.querySelector('.expand').click()")
    assert browser.run(state) == ["false", True, size]
    assert browser.problems == []


def test_theme_is_toggled_and_remembered(browser: Browser, image_run: Run) -> None:
    page = image_run.folder / "report.html"
    browser.open(page, theme="light")
    look = """[document.getElementById('theme').getAttribute('aria-pressed'),
               getComputedStyle(document.body).backgroundColor]"""
    light = browser.run(look)
    browser.run("document.getElementById('theme').click()")
    dark = browser.run(look)
    assert (light[0], dark[0]) == ("false", "true")
    assert light[1] != dark[1]
    browser.open(page, theme="light")
    assert browser.run(look) == dark
    browser.run("document.getElementById('theme').click()")
    assert browser.run(look) == light
    browser.run("localStorage.clear()")


def test_keyboard_focus_on_a_point_shows_its_picture(browser: Browser, image_run: Run) -> None:
    browser.open(image_run.folder / "report.html")
    state = """(() => {
        const at = document.querySelector('#inspector .px.large');
        return [document.getElementById('plane').getAttribute('aria-valuetext'),
                document.querySelector('#inspector h3')?.textContent,
                at && at.style.getPropertyValue('--x') + ' ' + at.style.getPropertyValue('--y')];
    })()"""
    assert browser.run(state) == ["No sample selected", None, None]
    browser.run("document.getElementById('plane').focus()")
    first = browser.run(state)
    assert first[2] is not None
    assert first[0].startswith(first[1])
    assert "cluster 0" in first[0]
    browser.press("ArrowRight")
    second = browser.run(state)
    assert second[1] != first[1]
    assert second[2] != first[2]
    browser.press("ArrowDown")
    assert "cluster 1" in browser.run(state)[0]
    browser.press("End")
    assert "cluster 2" in browser.run(state)[0]
    browser.press("ArrowUp")
    assert "cluster 1" in browser.run(state)[0]
    browser.press("Home")
    assert browser.run(state) == first
    outline = "getComputedStyle(document.getElementById('plane')).outlineStyle"
    assert browser.run(outline) == "solid"
    assert browser.problems == []


def test_pointing_at_a_sample_shows_it(browser: Browser, feature_run: Run) -> None:
    browser.open(feature_run.folder / "report.html")
    browser.run("document.getElementById('plane').scrollIntoView({behavior: 'instant'})")
    place = browser.run("""(() => {
        const view = JSON.parse(document.getElementById('data').textContent).view;
        const box = document.getElementById('plane').getBoundingClientRect(), side = box.width;
        return [box.left + 26 + view.x[7] / 1000 * (side - 52),
                box.top + 26 + (1 - view.y[7] / 1000) * (side - 52), view.l[7]];
    })()""")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
    shown = browser.run("document.getElementById('inspector').textContent")
    assert shown.startswith("Sample ")
    assert f"cluster{place[2]}confidence" in shown
    assert browser.run("document.querySelector('#inspector .px')") is None


def test_thumbnail_opens_a_dialog_with_its_neighbors(browser: Browser, image_run: Run) -> None:
    browser.open(image_run.folder / "report.html")
    browser.run("document.querySelector('.thumb').focus()")
    browser.press("Enter")
    state = """[document.getElementById('sample').open,
                document.querySelector('#sample h3')?.textContent]"""
    label = browser.run("document.querySelector('.thumb').getAttribute('aria-label')")
    opened = browser.run(state)
    assert opened[0] is True
    assert label.startswith(opened[1])
    assert browser.run("document.querySelectorAll('#sample .near > *').length") >= 1
    browser.run("document.querySelector('#sample form button').click()")
    assert browser.run(state)[0] is False
    focused = "document.activeElement === document.querySelector('.thumb')"
    assert browser.run(focused) is True
    assert browser.problems == []


def test_embedding_can_be_painted_and_clusters_brought_out(
    browser: Browser, image_run: Run
) -> None:
    browser.open(image_run.folder / "report.html")
    picture = "document.querySelector('#plane canvas').toDataURL()"
    seen = {browser.run(picture)}
    for value in ("confidence", "truth", "mistakes"):
        browser.run(f"""(() => {{ const s = document.getElementById('paint');
            s.value = '{value}'; s.dispatchEvent(new Event('change')); }})()""")
        seen.add(browser.run(picture))
    browser.run("document.querySelector('[data-bring]').click()")
    seen.add(browser.run(picture))
    assert len(seen) == 5
    pressed = "document.querySelector('[data-bring]').getAttribute('aria-pressed')"
    assert browser.run(pressed) == "true"
    assert browser.problems == []


def test_mistakes_are_shown(browser: Browser, image_run: Run) -> None:
    browser.open(image_run.folder / "report.html")
    wrong = round(image_run.record["scores"]["error"] / 100 * 120)
    assert wrong > 0
    assert browser.run("document.querySelectorAll('#mistakes figure').length") == min(wrong, 36)
