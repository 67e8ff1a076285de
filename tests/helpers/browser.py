"""A real browser, Debian's Chromium without a window; a test that asks for it skips without one."""

import contextlib
import json
import shutil
import time

import pytest

WIDTHS = {"desktop": 1280, "phone": 390}
PATIENCE = 120  # seconds for what takes a moment, on a machine that is busy with other tests

# What overflows its page horizontally, and is not inside a box that scrolls of its own.
OVERFLOWING = """
const overflow = (x) => getComputedStyle(x).overflowX;
const scrolls = (x) => x && (/auto|scroll/.test(overflow(x)) || scrolls(x.parentElement));
const page = document.documentElement;
const right = (x) => x === page ? page.scrollWidth : x.getBoundingClientRect().right;
return [page, ...document.body.querySelectorAll("*")]
  .filter((x) => right(x) > innerWidth + 0.5 && !scrolls(x.parentElement))
  .map((x) => x.outerHTML.slice(0, 100));
"""

# How many plots are still to be drawn.
UNDRAWN = """
const plots = document.querySelectorAll(".plot");
return plots.length - (document.documentElement.dataset.drawn ?? 0);
"""

# What `faults` finds in a page without any.
NONE = {"console": [], "requests": [], "undrawn": [], "overflowing": []}


@contextlib.contextmanager
def chromium():
    """Yields a driver of Chromium; skips the test, with a reason, where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("no Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(driver)
    with webdriver.Chrome(options=options, service=service) as chrome:
        chrome.set_script_timeout(PATIENCE)
        yield chrome


def becomes(ask, expected):
    """Waits until `ask()` is `expected`: what follows from an event may come a moment later.

    Ask by one script: an element that is held from one question to the next may be gone.
    """
    end = time.monotonic() + PATIENCE
    while (answer := ask()) != expected and time.monotonic() < end:
        time.sleep(0.05)
    assert answer == expected


def emulate(driver, *, dark):
    """Turns the system of the browser dark or light."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def open_page(driver, file, *, width=1280, height=900, dark=False):
    """Opens a file at a width, in light or dark, and waits until its plots are drawn."""
    emulate(driver, dark=dark)
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.get(file.resolve().as_uri())
    becomes(lambda: driver.execute_script(UNDRAWN), 0)


def open_everywhere(driver, file):
    """Opens a file at each of WIDTHS, in light and in dark, where it has to be without a fault.

    Yields whether it is dark, while it is open.
    """
    for width in WIDTHS.values():
        for dark in (False, True):
            open_page(driver, file, width=width, dark=dark)
            assert faults(driver) == NONE
            yield dark


def faults(driver):
    """Returns what is wrong with the open page: console messages, requests, plots that are not
    drawn, and what overflows."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    sizes = driver.execute_script(
        "return [...document.querySelectorAll('.plot')].map((x) => {"
        "const s = x.querySelector('svg, canvas')?.getBoundingClientRect();"
        "return s && s.width > 100 && s.height > 50 ? '' : x.id})"
    )
    return {
        "console": [entry["message"] for entry in driver.get_log("browser")],
        "requests": [x for x in urls if x != driver.current_url and not x.startswith("data:")],
        "undrawn": [name for name in sizes if name],
        "overflowing": driver.execute_script(OVERFLOWING),
    }


def screenshot(driver, file):
    """Writes a picture of the whole page."""
    import base64

    options = {"captureBeyondViewport": True, "format": "png"}
    picture = driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
    file.write_bytes(base64.b64decode(picture))
