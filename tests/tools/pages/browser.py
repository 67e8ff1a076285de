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

# Texts whose contrast with what is below them is less than 4.5, which WCAG's level AA asks for.
FAINT = """
const memo = (f, seen = new Map()) => (x) => seen.has(x) ? seen.get(x) : seen.set(x, f(x)).get(x);
const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const rgba = memo((css) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = css;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].map((x) => x / 255);
});
const over = (top, alpha, below) => below.map((x, i) => top[i] * alpha + x * (1 - alpha));
const linear = (x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const contrast = (...colours) => {
  const [dark, light] = colours.map(luminance).sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
const opacity = memo((x) => x ? getComputedStyle(x).opacity * opacity(x.parentElement) : 1);
const background = memo((x) => {
  if (!x) return [1, 1, 1];
  const colour = rgba(getComputedStyle(x).backgroundColor);
  return over(colour, colour[3], background(x.parentElement));
});
const painted = (x, colour, alpha = 1) => [rgba(colour), rgba(colour)[3] * alpha * opacity(x)];
const filled = (x) => painted(x, getComputedStyle(x).fill, getComputedStyle(x).fillOpacity);
const box = memo((x) => x.getBoundingClientRect());
const inside = (x, y) => box(x).left <= box(y).left && box(x).right >= box(y).right &&
  box(x).top <= box(y).top && box(x).bottom >= box(y).bottom;
const isText = (x) => !x.closest("option, script, style") && x.checkVisibility() &&
  [...x.childNodes].some((y) => y.nodeType === Node.TEXT_NODE && y.data.trim());
return [...document.body.querySelectorAll("*")].filter(isText).flatMap((x) => {
  const [text, alpha] = x.ownerSVGElement ? filled(x) : painted(x, getComputedStyle(x).color);
  if (!alpha) return [];
  let below = background(x);
  const areas = x.ownerSVGElement?.querySelectorAll(".mark-rect path") ?? [];
  for (const area of areas) if (inside(area, x)) below = over(...filled(area), below);
  const found = contrast(over(text, alpha, below), below);
  return found < 4.5 ? [`${found.toFixed(1)}: ${x.outerHTML.slice(0, 200)}`] : [];
});
"""

# Texts of a plot that touch each other.
TOUCHING = """
const touch = ([, a], [, b]) => a.left < b.right + 2 && b.left < a.right + 2 &&
  a.top < b.bottom - 3 && b.top < a.bottom - 3;
return [...document.querySelectorAll(".plot svg")].flatMap((svg) => {
  const shown = [...svg.querySelectorAll("text")].filter((x) => +getComputedStyle(x).opacity);
  const texts = shown.map((x) => [x.textContent, x.getBoundingClientRect()]);
  return texts.flatMap((x, i) => texts.slice(i + 1).filter((y) => touch(x, y))
    .map((y) => `${x[0]} | ${y[0]}`));
});
"""

# What `faults` finds in a page without any.
KINDS = ("console", "requests", "undrawn", "overflowing", "faint", "touching")
NONE = {kind: [] for kind in KINDS}


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
    """Opens a file, or a URL, at a width, in light or dark, and waits until its plots are drawn."""
    emulate(driver, dark=dark)
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.get(file if isinstance(file, str) else file.resolve().as_uri())
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
    drawn, what overflows, texts that are faint and those that touch."""
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
        "faint": driver.execute_script(FAINT),
        "touching": driver.execute_script(TOUCHING),
    }
