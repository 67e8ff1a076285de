// What browser.py asks of the open page: its faults first, then what single tests look at.

// What overflows its page horizontally, and is not inside a box that scrolls of its own.
function overflowing() {
  const overflow = (x) => getComputedStyle(x).overflowX;
  const scrolls = (x) => x && (/auto|scroll/.test(overflow(x)) || scrolls(x.parentElement));
  const page = document.documentElement;
  const right = (x) => x === page ? page.scrollWidth : x.getBoundingClientRect().right;
  return [page, ...document.body.querySelectorAll("*")]
    .filter((x) => right(x) > innerWidth + 0.5 && !scrolls(x.parentElement))
    .map((x) => x.outerHTML.slice(0, 100));
}

// How many plots are still to be drawn.
function undrawn() {
  const plots = document.querySelectorAll(".plot");
  return plots.length - (document.documentElement.dataset.drawn ?? 0);
}

// Texts whose contrast with what is below them is less than 4.5, which WCAG's level AA asks for.
function faint() {
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
}

// Texts of a plot that touch each other.
function touching() {
  const touch = ([, a], [, b]) => a.left < b.right + 2 && b.left < a.right + 2 &&
    a.top < b.bottom - 3 && b.top < a.bottom - 3;
  return [...document.querySelectorAll(".plot svg")].flatMap((svg) => {
    const shown = [...svg.querySelectorAll("text")].filter((x) => +getComputedStyle(x).opacity);
    const texts = shown.map((x) => [x.textContent, x.getBoundingClientRect()]);
    return texts.flatMap((x, i) => texts.slice(i + 1).filter((y) => touch(x, y))
      .map((y) => `${x[0]} | ${y[0]}`));
  });
}

// Plots that have no picture of some size.
function unseen() {
  return [...document.querySelectorAll(".plot")].filter((x) => {
    const drawn = x.querySelector("svg, canvas")?.getBoundingClientRect();
    return !(drawn && drawn.width > 100 && drawn.height > 50);
  }).map((x) => x.id);
}

// The colour of the first line of the first plot, null while there is none.
function colour() {
  return document.querySelector(".plot .mark-line path")?.getAttribute("stroke") ?? null;
}

// What each plot can be saved as. The files are made as a link is pressed.
function saved() {
  const links = [...document.querySelectorAll(".plot .vega-actions a")];
  links.forEach((x) => x.dispatchEvent(new Event("mousedown")));
  return links.map((x) => [x.textContent, x.download, x.href.split(":")[0]]);
}

// Of each plot: whether it is seen itself, and whether its picture is.
function seen() {
  return [...document.querySelectorAll(".picture > *")].map((x) => x.clientHeight > 50);
}

// Of a view of attention: how many lines are shown, and what is said without its numbers.
function attention() {
  const shown = [...document.querySelectorAll("line")].filter((x) => x.style.opacity > 0);
  const said = document.querySelector(".said").textContent;
  return [shown.length, said.replace(/ [.0-9]+(?=,|$)/g, "")];
}

// How many options each of its menus has.
function options() {
  return [...document.querySelectorAll("select")].map((x) => x.options.length);
}

// Chooses an option of a menu, both by their numbers.
function choose(menu, option) {
  const select = document.querySelectorAll("select")[menu];
  select.selectedIndex = option;
  select.dispatchEvent(new Event("change"));
}

// The numbers of its heat map, and how the words above them stand.
function cells() {
  return [...document.querySelectorAll("td[title]")].map((x) => Number(x.title.split(": ").pop()));
}
function orientation() {
  return getComputedStyle(document.querySelector(".views thead span")).textOrientation;
}
