"""A real browser, Debian's Chromium without a window; a test that asks for it skips without one."""

import contextlib
import json
import pathlib
import shutil
import time

import pytest

WIDTHS = {"desktop": 1280, "phone": 390}
PATIENCE = 120  # seconds for what takes a moment, on a machine that is busy with other tests

FUNCTIONS = pathlib.Path(__file__).with_name("browser.js").read_text()
LOOKS = ("unseen", "overflowing", "faint", "touching")
NONE = {kind: [] for kind in ("console", "requests", *LOOKS)}  # `faults` of a page without any


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
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as chrome:
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


def ask(driver, call):
    """Returns what a function of browser.js says of the open page: 'faint()'."""
    return driver.execute_script(f"{FUNCTIONS}\nreturn {call};")


def emulate(driver, *, dark):
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def open_page(driver, file, *, width=1280, height=900, dark=False):
    """Opens a file, or a URL, at a width, in light or dark, and waits until its plots are drawn."""
    emulate(driver, dark=dark)
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.get(file if isinstance(file, str) else file.resolve().as_uri())
    becomes(lambda: ask(driver, "undrawn()"), 0)


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
    """Returns what is wrong with the open page: console messages, requests, and what LOOKS find."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    return {
        "console": [entry["message"] for entry in driver.get_log("browser")],
        "requests": [x for x in urls if x != driver.current_url and not x.startswith("data:")],
        **{name: ask(driver, f"{name}()") for name in LOOKS},
    }
