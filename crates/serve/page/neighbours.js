// The nearest words by the embedding.

import { find, make, settled, showBars, spoken } from "./dom.js";
import { ask, sentence } from "./server.js";

const input = find("word");

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
    showBars(list, answer.neighbours.map(({ word, cosine }) => ({
      word: spoken(word),
      special: word.startsWith("<"),
      share: cosine,
      value: cosine.toFixed(3),
      choose: () => {
        input.value = word;
        update();
      },
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
  find("neighbours-model").addEventListener("change", update);
  input.addEventListener("input", update);
}

export const refresh = update;
