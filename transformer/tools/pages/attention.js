// Draws each .attention: the sentence, kind, layer and head chosen above it; head 0 is the mean.
for (const root of document.querySelectorAll(".attention")) {
  const examples = JSON.parse(root.querySelector("script").textContent);
  const [sentence, kind, layer, head] = root.querySelectorAll("select");
  const lists = root.querySelectorAll("ol");
  const titles = root.querySelectorAll("h3");
  const [svg, table, said] = ["svg", "table", ".said"].map((x) => root.querySelector(x));
  let map, weights, lines, buttons, cells, focused;

  const element = (name, properties, ...children) => {
    const x = Object.assign(document.createElement(name), properties);
    x.append(...children);
    return x;
  };
  const number = (w) => w.toFixed(3).replace(/^0/, "");
  const shade = (x, w) => x.style.setProperty("--w", w);
  const fill = (select, names) => {
    const before = Math.max(0, select.selectedIndex);
    select.replaceChildren(...names.map((name) => element("option", {}, name)));
    select.selectedIndex = Math.min(before, names.length - 1);
    select.parentElement.hidden = names.length < 2;
  };

  // The weights of the chosen head, or the mean of all, as rows [query][key] from 0 to 1.
  function chosen() {
    const heads = map.weights[layer.selectedIndex];
    const several = head.options.length > 1;
    const shown = several && head.selectedIndex ? [heads[head.selectedIndex - 1]] : heads;
    const S = map.keys.length;
    return map.queries.map((_, t) =>
      map.keys.map((_, s) => shown.reduce((sum, x) => sum + x[t * S + s], 0) / shown.length / 1000));
  }

  // Shows the lines of one word: side 0 is the queries', 1 the keys'; side -1: all but the weak.
  function show(side, i) {
    if (side < 0 && map.first >= 0) [side, i] = [0, map.first];
    for (const { line, at, w } of lines) {
      line.style.opacity = (side < 0 ? w >= 0.1 : at[side] === i) ? w : 0;
    }
    buttons.forEach((column, j) => column.forEach((button, k) => {
      button.classList.toggle("chosen", side === j && k === i);
      const w = j ? weights[i]?.[k] : weights[k][i];
      shade(button, side === 1 - j ? w : 0);
    }));
    cells.forEach((row, t) => row.forEach((cell, s) =>
      cell.classList.toggle("chosen", (side === 0 && t === i) || (side === 1 && s === i))));
    said.textContent = side < 0 ? "" : inWords(side, i);
  }

  function inWords(side, i) {
    const [here, there] = side ? [map.keys, map.queries] : [map.queries, map.keys];
    const most = there.map((word, k) => [side ? weights[k][i] : weights[i][k], word])
      .filter(([w]) => w >= 0.01).sort((a, b) => b[0] - a[0]).slice(0, 6);
    const list = most.map(([w, word]) => `${word} ${number(w)}`).join(", ") || "nothing";
    return `${here[i]} ${side ? "is attended to by" : "attends to"}: ${list}`;
  }

  function draw() {
    map = examples[sentence.selectedIndex].maps[kind.selectedIndex];
    weights = chosen();
    const sides = [map.queries, map.keys];
    titles.forEach((title, j) => { title.textContent = j ? map.right : map.left; });
    buttons = sides.map((words, j) => words.map((word, i) => {
      const button = element("button", { type: "button", dir: "auto", title: word }, word);
      button.onpointerenter = () => show(j, i);
      button.onpointerleave = () => show(...focused);
      button.onfocus = () => show(...(focused = [j, i]));
      button.onblur = () => show(...(focused = [-1]));
      button.onclick = () => { button.focus(); show(j, i); };  // a tap alone does not focus everywhere
      return button;
    }));
    lists.forEach((list, j) =>
      list.replaceChildren(...buttons[j].map((button) => element("li", {}, button))));

    const rows = Math.max(...sides.map((words) => words.length));
    root.style.setProperty("--rows", rows);
    root.style.setProperty("--columns", map.keys.length);
    svg.setAttribute("viewBox", `0 0 100 ${rows}`);
    svg.style.height = `calc(${rows} * var(--row))`;
    lines = [];
    weights.forEach((row, t) => row.forEach((w, s) => {
      if (w < 0.01) return;
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      const ends = { x1: 0, y1: t + 0.5, x2: 100, y2: s + 0.5, "stroke-width": 1 + 3 * w };
      Object.entries(ends).forEach(([name, value]) => line.setAttribute(name, value));
      lines.push({ line, at: [t, s], w });
    }));
    svg.replaceChildren(...lines.map((x) => x.line));

    cells = weights.map((row, t) => row.map((w, s) => {
      const title = `${map.queries[t]} → ${map.keys[s]}: ${number(w)}`;
      const cell = element("td", { title, className: w < 0.01 ? "faint" : "" }, w.toFixed(2).replace(/^0/, ""));
      shade(cell, w);
      return cell;
    }));
    // A single character stands upright: a ␣ on its side is a Korean letter.
    const upright = (word) => [...word].length < 2 ? "upright" : "";
    const heading = (word) => element("th", { scope: "col", title: word },
      element("span", { className: upright(word) }, word));
    table.replaceChildren(
      element("thead", {}, element("tr", {}, element("td"), ...map.keys.map(heading))),
      element("tbody", {}, ...cells.map((row, t) =>
        element("tr", {}, element("th", { scope: "row", title: map.queries[t] }, map.queries[t]), ...row))));
    table.querySelector("td").style.background = "none";
    show(...(focused = [-1]));
  }

  // The choices that there are depend on those before them.
  function choose() {
    fill(sentence, examples.map((x) => x.title));
    const { maps } = examples[sentence.selectedIndex];
    fill(kind, maps.map((x) => x.name));
    const all = maps[kind.selectedIndex].weights;
    const before = layer.options.length;
    fill(layer, all.map((_, i) => `${i + 1}`));
    if (!before) layer.selectedIndex = all.length - 1;
    const heads = all[0].map((_, i) => `${i + 1}`);
    fill(head, heads.length > 1 ? ["mean of all", ...heads] : heads);
    draw();
  }

  for (const select of [sentence, kind, layer, head]) select.onchange = choose;
  choose();
}
