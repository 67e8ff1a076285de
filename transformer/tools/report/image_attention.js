// Colours the patches of each .patched by the layer and head chosen above; head 0 is the mean.
for (const root of document.querySelectorAll(".patched")) {
  const pictures = JSON.parse(root.querySelector("script").textContent);
  const [layer, head] = root.querySelectorAll("select");
  const figures = [...root.querySelectorAll("figure")];

  function draw() {
    figures.forEach((figure, n) => {
      const heads = pictures[n][layer.selectedIndex];
      const several = head.options.length > 1;
      const shown = several && head.selectedIndex ? [heads[head.selectedIndex - 1]] : heads;
      const shares = shown[0].map((_, i) =>
        shown.reduce((sum, x) => sum + x[i], 0) / shown.length / 1000);
      const most = Math.max(...shares, 1e-9);
      figure.querySelectorAll("td").forEach((cell, i) => {
        cell.textContent = (100 * shares[i]).toFixed(shares[i] < 0.0995 ? 1 : 0);
        cell.style.setProperty("--w", shares[i] / most);
      });
    });
  }

  for (const select of [layer, head]) select.onchange = draw;
  draw();
}
