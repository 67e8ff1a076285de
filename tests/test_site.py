"""The site of `make docs`: each page is in its navigation, every link leads somewhere, and a
browser reads and searches it from the file system, without a network."""

import itertools
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tools.pages import browser

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("index", "docs/tour", "docs/tour.ko", "docs/results", "docs/api/models")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Builds the site; Sphinx warns of a link or an anchor that there is not, and of a page that
    is not in the navigation."""
    folder = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--fail-on-warning", "-d", folder / "doctrees", "-c", "docs")
    command = (sys.executable, "-m", "sphinx", *options, ".", folder / "site")
    built = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert not built.stderr, built.stderr
    assert built.returncode == 0
    return folder / "site"


def test_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    texts = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    ids = {path: {*re.findall(r'id="([^"]+)"', text), ""} for path, text in texts.items()}
    wrong = set()
    for path, text in texts.items():
        for tag, url in re.findall(r'<(\w+)[^>]*?\s(?:href|src)="([^"]+)"', text):
            address = urlsplit(url)
            if address.scheme or address.netloc:
                lost = tag != "a"
            else:
                file = (path.parent / unquote(address.path)).resolve() if address.path else path
                lost = not file.is_file() or unquote(address.fragment) not in ids.get(file, {""})
            if lost:
                wrong.add((path.relative_to(site).as_posix(), url))
    assert len(texts) > 200
    assert not wrong


def test_formulas_are_drawn_and_pages_say_their_language(site):
    formulas = 0
    for page in ROOT.glob("docs/*.md"):
        source = page.read_text("utf-8")
        built = (site / "docs" / f"{page.stem}.html").read_text("utf-8")
        assert built.count("<math ") == len(re.findall(r"^```math$|\$`", source, re.MULTILINE))
        assert f'lang="{"ko" if page.stem.endswith(".ko") else "en"}"' in built
        formulas += built.count("<math ")
    assert formulas > 200


def test_docstrings_read_as_they_are_written(site):
    models = (site / "docs" / "api" / "models.html").read_text("utf-8")
    assert "inputs int [B, S] or [B, T], as" in models
    assert "both_ways = False           cannot be in an encoder" in models  # a table
    assert 'href="../../_modules/transformer/models/attention.html#attend"' in models
    assert 'href="api/models.html#module-transformer.models.attention"' in (
        site / "docs" / "tour.html"
    ).read_text("utf-8")
    assert "_Sentinel" not in models


def test_a_browser_reads_pages_and_finds_words(site):
    from selenium.webdriver import ActionChains, Keys

    results = "return [...document.querySelectorAll('#search-results a')].map((x) => x.href)"
    with browser.chromium() as driver:
        for number, (name, width) in enumerate(itertools.product(PAGES, browser.WIDTHS.values())):
            dark = number % 4 in (1, 2)  # each page once, and each width
            browser.open_page(driver, site / f"{name}.html", width=width, dark=dark)
            faults = browser.faults(driver)
            faults["requests"] = [x for x in faults["requests"] if not x.startswith("file:")]
            # The list of headings waits beside the page until it is asked for.
            faults["overflowing"] = [x for x in faults["overflowing"] if 'class="toc-' not in x]
            assert faults == browser.NONE, (name, width, dark)
        for word, name in {"어텐션": "tour.ko", "예측": "tour.ko", "smoothing": "tour"}.items():
            browser.open_page(driver, site / "index.html")
            ActionChains(driver).send_keys("/").send_keys(word + Keys.ENTER).perform()
            page = (site / "docs" / f"{name}.html").as_uri()
            is_listed = lambda page=page: any(
                x.startswith(page) for x in driver.execute_script(results)
            )
            browser.becomes(is_listed, True)
