// The nearest words by the embedding.

import { find, make, settled, showBars, spoken } from "./dom.js";
import { ask, sentence } from "./server.js";

import * as map from "./map.js";

const input = find("word");

function go(word) {
  input.value = word;
  update();
}

const update = settled(200, [find("neighbours-list")], async (outdated) => {
  const [list, note] = [find("neighbours-list"), find("neighbours-note")];
  const word = input.value.trim();
  if (!word) {
    list.replaceChildren();
    note.textContent = "";
    return;
  }
  try {
    const answer = await ask("/api/neighbours", { model: find("neighbours-model").value, word, k: 15 });
    if (outdated()) return;
    note.textContent = "";
    map.mark(answer.word, answer.neighbours.map(({ word }) => word));
    showBars(list, answer.neighbours.map(({ word, cosine }) => ({
      word: spoken(word),
      special: word.startsWith("<"),
      share: cosine,
      value: cosine.toFixed(3),
      choose: () => go(word),
    })));
  } catch (error) {
    if (outdated()) return;
    list.replaceChildren();
    note.textContent = sentence(error);
  }
});

export function start(models) {
  // The words of n-gram models have no vectors.
  const networks = models.filter((model) => model.parameters);
  find("neighbours-model").append(...(networks.length ? networks : models).map((model) => make("option", { value: model.id }, model.id)));
  find("neighbours-model").addEventListener("change", () => begin(true));
  input.addEventListener("input", update);
  map.start(go);
}

// The map of the model, and a word to start with: a frequent one that is not too short to mean something.
async function begin(anew) {
  try {
    const answer = await ask("/api/map?k=400&model=" + encodeURIComponent(find("neighbours-model").value));
    map.show(answer.words);
    find("map").hidden = answer.words.length === 0;
    const long = answer.words.slice(20).find(({ word }) => word.length > 4) || answer.words.find(({ word }) => word.length > 2);
    if (!anew && !input.value && long) input.value = long.word;
  } catch (error) {
    find("neighbours-note").textContent = sentence(error);
  }
  update();
}

let begun = false;
export const refresh = () => {
  if (begun) return;
  begun = true;
  begin(false);
};
