// A map of words: drag to move, scroll or + and - to zoom, click a word.

import { find } from "./dom.js";

const svg = find("map-view");
// As wide as it is shown, so that the letters are as large as everywhere.
let size = 600;
let view = { x: -1.15, y: -1.15, span: 2.3 };
let words = [];
let choose = () => {};
let marked = new Set();
let middle = "";

const element = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
const at = ({ x, y }) => [(x - view.x) / view.span * size, (y - view.y) / view.span * size];

// Draws the words that have room, those of interest first, then the more frequent ones.
function draw() {
  size = svg.clientWidth || size;
  const taken = [];
  const interest = (word) => (word === middle ? 0 : marked.has(word) ? 1 : 2);
  const order = words.map((place, i) => ({ ...place, i })).sort((a, b) => interest(a.word) - interest(b.word) || a.i - b.i);
  const shown = [];
  for (const place of order) {
    const [x, y] = at(place);
    if (x < -40 || x > size + 40 || y < -10 || y > size + 10) continue;
    const half = 4.2 * place.word.length + 6;
    const collides = taken.some(([a, b, c]) => Math.abs(a - x) < half + c && Math.abs(b - y) < 15);
    if (collides && interest(place.word) === 2) {
      const dot = element("circle");
      for (const [key, value] of Object.entries({ cx: x, cy: y, r: 1.6, class: "speck" })) dot.setAttribute(key, value);
      shown.push(dot);
      continue;
    }
    taken.push([x, y, half]);
    const text = element("text");
    for (const [key, value] of Object.entries({ x, y: y + 4, "text-anchor": "middle" })) text.setAttribute(key, value);
    text.setAttribute("class", ["middle", "marked", ""][interest(place.word)]);
    text.textContent = place.word;
    text.dataset.word = place.word;
    shown.push(text);
  }
  svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
  svg.replaceChildren(...shown);
}

function zoom(factor, cx = 0.5, cy = 0.5) {
  const span = Math.min(4, Math.max(0.05, view.span * factor));
  view = { x: view.x + (view.span - span) * cx, y: view.y + (view.span - span) * cy, span };
  draw();
}

function home() {
  view = { x: -1.15, y: -1.15, span: 2.3 };
  draw();
}

export function show(places) {
  words = places;
  home();
}

// Puts a word and its neighbours before the others, and moves to the word if it is not in sight.
export function mark(word, neighbours) {
  middle = word;
  marked = new Set(neighbours);
  const place = words.find((place) => place.word === word);
  if (place) {
    const [x, y] = at(place);
    if (x < 0 || y < 0 || x > size || y > size) view = { ...view, x: place.x - view.span / 2, y: place.y - view.span / 2 };
  }
  draw();
}

export function start(chosen) {
  choose = chosen;
  let drag = null;
  svg.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, view, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const scale = drag.view.span / svg.clientWidth;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
    view = { ...view, x: drag.view.x - dx * scale, y: drag.view.y - dy * scale };
    if (drag.moved) draw();
  });
  addEventListener("pointerup", (event) => {
    const word = event.target.dataset?.word;
    if (drag && !drag.moved && word) choose(word);
    drag = null;
  });
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  }, { passive: false });
  svg.addEventListener("keydown", (event) => {
    if (event.key === "+") zoom(1 / 1.3);
    else if (event.key === "-") zoom(1.3);
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      event.preventDefault();
      view = { ...view, x: view.x + step[0] * view.span / 10, y: view.y + step[1] * view.span / 10 };
      draw();
    }
  });
  find("map-home").addEventListener("click", home);
  addEventListener("resize", draw);
}
