// Draws the plots into #plot0, #plot1, ..., and again when the system turns dark or light.
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const specs = read("plots");
const themes = read("themes");
const names = [...document.querySelectorAll("figcaption:has(+ .picture) b")].map((x) => x.textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
let drawn = [];

async function draw() {
  // What is saved has the page's background, on which its colours can be seen.
  const background = getComputedStyle(document.body).backgroundColor;
  const config = { ...(dark.matches ? themes.dark : themes.light), background };
  drawn.forEach((result) => result.finalize());
  // ast: expressions are interpreted, because the page forbids itself eval.
  const actions = { export: true, source: false, compiled: false, editor: false };
  const options = { config, actions, renderer: "svg", ast: true };
  drawn = await Promise.all(specs.map((spec, i) =>
    vegaEmbed(`#plot${i}`, spec, { ...options, downloadFileName: names[i] || document.title })));
  document.documentElement.dataset.drawn = drawn.length;
}

// One drawing after the other: of two at once the earlier may end last, in the colours of before.
let drawing = draw();
dark.addEventListener("change", () => { drawing = drawing.finally(draw); });
