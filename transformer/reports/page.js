// Draws the plots into #plot0, #plot1, ..., and again when the system turns dark or light.
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const specs = read("plots");
const themes = read("themes");
const dark = matchMedia("(prefers-color-scheme: dark)");
let drawn = [];

async function draw() {
  const config = dark.matches ? themes.dark : themes.light;
  drawn.forEach((result) => result.finalize());
  // ast: expressions are interpreted, because the page forbids itself eval.
  const options = { config, actions: false, renderer: "svg", ast: true };
  drawn = await Promise.all(specs.map((spec, i) => vegaEmbed(`#plot${i}`, spec, options)));
  document.documentElement.dataset.drawn = drawn.length;
}

// One drawing after the other: of two at once the earlier may end last, in the colours of before.
let drawing = draw();
dark.addEventListener("change", () => { drawing = drawing.finally(draw); });
