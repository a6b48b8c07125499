// The parts of the page, and the tabs between them.

import { find } from "./dom.js";
import { ask, sentence } from "./server.js";
import * as next from "./next.js";
import * as proceed from "./continue.js";
import * as surprise from "./surprise.js";
import * as neighbours from "./neighbours.js";
import * as curves from "./curves.js";

const parts = { next, continue: proceed, surprise, neighbours, curves };
const tabs = [...document.querySelectorAll("[role=tab]")];

function open(name, focus) {
  for (const tab of tabs) {
    const chosen = tab.id === "tab-" + name;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    find(tab.getAttribute("aria-controls")).hidden = !chosen;
    if (chosen && focus) tab.focus();
  }
  history.replaceState(null, "", "#" + name);
  parts[name].refresh();
}

tabs.forEach((tab, number) => {
  tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) open(tabs[(number + step + tabs.length) % tabs.length].getAttribute("aria-controls"), true);
  });
});

async function begin() {
  let list;
  try {
    list = await ask("/v1/models");
  } catch (error) {
    find("state").textContent = sentence(error);
    setTimeout(begin, 2000);
    return;
  }
  find("state").textContent = "";
  for (const part of Object.values(parts)) part.start(list.data, list.runs);
  // An n-gram model has no parameters in this sense; a model that does not predict as it was trained says how it does.
  const million = (model) => model.parameters ? `, ${(model.parameters / 1e6).toFixed(model.parameters < 1e6 ? 2 : 1)}M parameters` : "";
  const way = (model) => model.predictor ? `, predicts as ${model.predictor.title}` : "";
  find("footer-models").textContent = list.data.map((model) => `${model.id}: ${model.kind}${million(model)}, ${model.vocabulary.toLocaleString("en")} words${way(model)}`).join(" \u00b7 ");
  const wanted = location.hash.slice(1);
  open(parts[wanted] ? wanted : "next");
  document.documentElement.dataset.ready = "yes";
}

begin();
