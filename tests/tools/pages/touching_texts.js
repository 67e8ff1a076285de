const svg = document.querySelector("svg"), area = svg.getBoundingClientRect();
const seen = (x) => +getComputedStyle(x.parentNode).opacity;
const texts = [...svg.querySelectorAll("text")].filter(seen);
const places = texts.map((x) => [x.textContent, x.getBoundingClientRect()]);
const within = (x, y, r) => x > r.left && x < r.right && y > r.top + 2 && y < r.bottom - 2;
const points = [...svg.querySelectorAll("path.arrow")].flatMap((x) =>
  Array.from({ length: x.getTotalLength() / 2 }, (_, i) =>
    x.getPointAtLength(2 * i).matrixTransform(x.getScreenCTM())));
return places.flatMap(([name, r], i) => [
  r.left < area.left + 4 || r.right > area.right - 4 ? `${name} leaves` : "",
  points.some((p) => within(p.x, p.y, r)) ? `${name} is crossed` : "",
  ...places.slice(i + 1).map(([other, q]) => r.left < q.right && q.left < r.right &&
    r.top < q.bottom - 2 && q.top < r.bottom - 2 ? `${name} touches ${other}` : ""),
]).filter(Boolean);
