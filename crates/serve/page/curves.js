// The perplexities of the runs in a folder, drawn while they train.

import { find, make } from "./dom.js";
import { ask, sentence } from "./server.js";

const PERIOD = 2000;
const [LEFT, BOTTOM, TOP, RIGHT] = [70, 50, 12, 14];
// Eight hues that stay apart for most colour-blind people, in two strengths for the two themes.
const HUES = [205, 25, 145, 330, 50, 265, 180, 0];
const dark = matchMedia("(prefers-color-scheme: dark)");
const color = (index) => `hsl(${HUES[index % HUES.length]} ${index >= HUES.length ? 30 : 65}% ${dark.matches ? 66 : 38}%)`;

let runs = [];
let version = null;
let watching = false;
const hidden = new Set();

function svg(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Values for the axis, round ones, at most about six.
function ticks(from, to, logarithmic) {
  if (logarithmic && to > 4 * from) {
    const steps = [1, 1.5, 2, 3, 4, 5, 7];
    let all = [];
    for (let ten = 10 ** Math.floor(Math.log10(from)); ten <= to; ten *= 10) all.push(...steps.map((step) => step * ten));
    all = all.filter((value) => value >= from && value <= to);
    const every = Math.ceil(all.length / 7);
    return all.filter((_, i) => i % every === 0);
  }
  const raw = (to - from) / 5 || 1;
  const ten = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((x) => x * ten).find((x) => x >= raw);
  const all = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) all.push(value);
  return all;
}

function draw() {
  const which = document.querySelector("input[name=curve]:checked").value;
  const logarithmic = find("log-scale").checked;
  const shown = runs.map((run, index) => ({ run, index })).filter(({ run }) => !hidden.has(run.name));
  // An n-gram model has no epochs: it is a level.
  const levels = shown.filter(({ run }) => isNgram(run) && run.curve.length).map(({ run, index }) => ({ run, index, level: run.curve.at(-1)[which === "valid" ? 2 : 1] }));
  const lines = shown.filter(({ run }) => !isNgram(run)).map(({ run, index }) => ({
    run, index,
    points: run.curve.map(([epoch, train, valid]) => [epoch, which === "valid" ? valid : train]).filter(([, y]) => y > 0),
    within: which === "train" ? run.points.filter(([, y]) => y > 0) : [],
  }));
  const all = lines.flatMap((line) => [...line.points, ...line.within]);
  if (all.length === 0 && levels.length) all.push(...levels.map(({ level }) => [1, level]));
  const note = find("curves-note");
  if (all.length === 0) {
    find("chart").replaceChildren();
    note.textContent = runs.length === 0 ? "There is no run in the folder yet. It appears here when its training begins."
      : "No epoch is done yet. Choose \u201ctraining\u201d to see what there is.";
    return;
  }
  note.textContent = "";
  const xs = all.map(([x]) => x);
  const ys = [...all.map(([, y]) => y), ...levels.map(({ level }) => level)];
  // As wide as there is room, so that the letters are as large as everywhere.
  const WIDTH = Math.max(300, find("chart").clientWidth);
  const HEIGHT = Math.round(Math.min(420, Math.max(240, WIDTH * 0.45)));
  const left = Math.floor(Math.min(...xs));
  const right = Math.max(left + 1, ...xs);
  // What the first steps say would press all the rest flat.
  const sorted = [...ys].sort((a, b) => a - b);
  const high = Math.min(sorted.at(-1), sorted[0] * 12) * 1.03;
  const low = sorted[0] * 0.97;
  const scale = logarithmic ? Math.log : (y) => y;
  const x = (value) => LEFT + (WIDTH - LEFT - RIGHT) * (value - left) / (right - left);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (scale(Math.min(value, high)) - scale(low)) / (scale(high) - scale(low)));

  const chart = svg("svg", { width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Perplexity (${which}) by epoch of ${shown.length} runs; the table below has the numbers` });
  for (const value of ticks(low, high, logarithmic)) {
    chart.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    chart.append(svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, String(+value.toPrecision(4))));
  }
  const every = Math.max(1, Math.ceil((right - left) / 12));
  for (let epoch = left; epoch <= right; epoch += every) {
    chart.append(svg("text", { x: x(epoch), y: HEIGHT - 30, "text-anchor": "middle" }, String(epoch)));
  }
  const centre = TOP + (HEIGHT - TOP - BOTTOM) / 2;
  chart.append(svg("text", { class: "axis", x: LEFT + (WIDTH - LEFT - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "epoch"));
  chart.append(svg("text", { class: "axis", x: 14, y: centre, "text-anchor": "middle", transform: `rotate(-90 14 ${centre})` }, which === "valid" ? "validation perplexity" : "training perplexity"));
  for (const { run, index, level } of levels) {
    chart.append(svg("line", { class: "level", x1: LEFT, x2: WIDTH - RIGHT, y1: y(level), y2: y(level), stroke: color(index), "data-run": run.name }));
    chart.append(svg("text", { class: "axis", x: WIDTH - RIGHT, y: y(level) - 5, "text-anchor": "end" }, `${run.name} ${level.toFixed(1)}`));
  }
  const path = (points) => points.map(([px, py], i) => `${i ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("");
  for (const { run, index, points, within } of lines) {
    if (within.length > 1) chart.append(svg("path", { class: "within", d: path(within), stroke: color(index) }));
    if (points.length > 1) chart.append(svg("path", { class: "curve", d: path(points), stroke: color(index), "data-run": run.name }));
    for (const [px, py] of points) {
      const dot = svg("circle", { class: "dot", cx: x(px), cy: y(py), r: points.length > 30 ? 2.5 : 4, fill: color(index), "data-run": run.name });
      dot.append(svg("title", {}, `${run.name}, epoch ${px}: ${py.toFixed(2)}`));
      chart.append(dot);
    }
  }
  find("chart").replaceChildren(chart);
}

const isNgram = (run) => run.model === "kn" || run.model === "ngram";

// The vocabulary that most runs have: the perplexities of others cannot be compared with theirs.
function usualVocabulary() {
  const counts = new Map();
  for (const { vocabulary } of runs) counts.set(vocabulary, (counts.get(vocabulary) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
}

function duration(seconds) {
  if (!(seconds > 0)) return "";
  const minutes = Math.round(seconds / 60);
  return minutes < 1 ? `${Math.round(seconds)} s` : minutes < 90 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}

function vocabulary(run, usual) {
  const other = run.vocabulary !== usual;
  const text = run.vocabulary.toLocaleString("en") + (other ? " \u2260" : "");
  const title = other ? "another vocabulary than the other runs: the perplexities cannot be compared" : "";
  return make("td", { className: "number wide" + (other ? " other" : ""), title }, text);
}

function table() {
  const number = (text) => make("td", { className: "number" }, text);
  const cell = (text) => make("td", { className: "number wide" }, text);
  const usual = usualVocabulary();
  find("runs-table").hidden = runs.length === 0;
  find("runs-table").tBodies[0].replaceChildren(...runs.map((run, index) => {
    const box = make("input", { type: "checkbox", checked: !hidden.has(run.name), onchange: () => {
      if (box.checked) hidden.delete(run.name);
      else hidden.add(run.name);
      draw();
    } });
    const mark = make("i");
    mark.style.background = color(index);
    const running = run.state === "running";
    const state = run.state === "quiet" ? `quiet for ${duration(run.quiet_seconds)}` : run.state;
    const best = run.curve.length ? Math.min(...run.curve.map((point) => point[2])) : null;
    const row = make("tr", {},
      make("td", {}, make("label", {}, box, " ", mark, run.name)),
      make("td", {}, run.model), make("td", { className: "wide" }, run.data.split("/").at(-1)),
      vocabulary(run, usual),
      make("td", { className: running ? "running" : "" }, state),
      cell(`${run.position.toFixed(running ? 2 : 0)} of ${run.epochs}`),
      number(run.result ? run.result[0].toFixed(2) : best ? best.toFixed(2) : ""),
      number(run.result ? run.result[1].toFixed(2) : ""),
      cell(running && run.words_per_second ? Math.round(run.words_per_second).toLocaleString("en") : ""),
      cell(running ? duration(run.eta_seconds) : ""));
    row.dataset.run = run.name;
    return row;
  }));
}

async function poll() {
  try {
    const answer = await ask("/api/runs" + (version === null ? "" : "?version=" + version));
    if (answer.runs) {
      runs = answer.runs;
      version = answer.version;
      table();
      draw();
    }
  } catch (error) {
    find("curves-note").textContent = sentence(error);
    // A server that is started again counts from the beginning.
    version = null;
  }
}

async function watch() {
  if (watching) return;
  watching = true;
  while (!find("curves").hidden) {
    if (!document.hidden) await poll();
    await new Promise((go) => setTimeout(go, PERIOD));
  }
  watching = false;
}

export function start(models, hasRuns) {
  if (!hasRuns) {
    find("curves-note").textContent = "No folder of runs is shown. Start the server with \u201c--runs DIR\u201d to see their curves here.";
    find("curves").querySelector("fieldset").hidden = true;
    return;
  }
  for (const element of document.querySelectorAll("input[name=curve], #log-scale")) element.addEventListener("change", draw);
  dark.addEventListener("change", () => { table(); draw(); });
  addEventListener("resize", () => { if (!find("curves").hidden) draw(); });
  refresh = watch;
}

export let refresh = () => {};
