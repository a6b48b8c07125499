// A text with each word coloured by its surprise: minus the binary logarithm of its probability.

import { find, make, settled, spoken } from "./dom.js";
import { ask, sentence } from "./server.js";

const STEPS = [0, 2, 4, 6, 8, 10, 12, 14];
const MOST = 14;
const EXAMPLE = "the company said it expects to report a loss for the third quarter\n" +
  "analysts said the stock market fell sharply on monday because of purple elephants";

const heat = (bits) => Math.min(1, Math.max(0, bits) / MOST);
const text = find("text");

function detail(word, bits) {
  const top = word.top.map(([other, probability]) => `${spoken(other)} ${(100 * probability).toFixed(probability < 0.1 ? 1 : 0)}\u2009%`).join(", ");
  const shown = word.word === "<eos>" ? "the end of the sentence" : `\u201c${word.word}\u201d`;
  const unknown = word.unknown ? ", which the model does not know and reads as a rare word," : "";
  return `${shown}${unknown}: ${bits.toFixed(1)} bits, one in ${Math.round(2 ** bits).toLocaleString("en")}. Expected here: ${top}.`;
}

function wordButton(word) {
  const bits = -word.logprob / Math.LN2;
  const end = word.word === "<eos>";
  const button = make("button", {
    type: "button",
    className: (word.unknown ? "unknown" : "") + (end ? " end" : ""),
    title: `${bits.toFixed(1)} bits`,
    "aria-label": `${end ? "end of sentence" : word.word}, ${bits.toFixed(1)} bits`,
    onclick: () => { find("surprise-detail").textContent = detail(word, bits); },
  }, end ? "\u00b6" : word.word);
  button.style.setProperty("--heat", heat(bits).toFixed(3));
  return button;
}

const update = settled(250, [find("surprise-words")], async (outdated) => {
  const [words, sum, note] = [find("surprise-words"), find("surprise-sum"), find("surprise-detail")];
  if (!text.value.trim()) {
    for (const element of [words, sum, note]) element.replaceChildren();
    return;
  }
  try {
    const answer = await ask("/api/score", { model: find("surprise-model").value, text: text.value.trimEnd(), carry: true, top: 4 });
    if (outdated()) return;
    const unknown = answer.words.filter((word) => word.unknown).length;
    const figure = (value, name) => make("span", {}, make("strong", {}, value), name);
    sum.replaceChildren(
      figure(answer.perplexity.toFixed(1), "perplexity"),
      figure((-answer.logprob / Math.LN2 / answer.tokens).toFixed(2), "bits a word"),
      figure(String(answer.tokens), answer.tokens === 1 ? "word" : "words and line ends"),
      ...(unknown ? [figure(String(unknown), "unknown")] : []),
    );
    const lines = [[]];
    for (const word of answer.words) {
      lines.at(-1).push(wordButton(word), " ");
      if (word.word === "<eos>") lines.push([]);
    }
    words.replaceChildren(...lines.filter((line) => line.length).map((line) => make("p", {}, ...line)));
    note.textContent = "Choose a word to see what was expected in its place.";
  } catch (error) {
    if (outdated()) return;
    words.replaceChildren();
    sum.replaceChildren();
    note.textContent = sentence(error);
  }
});

export function start(models) {
  find("surprise-model").append(...models.map((model) => make("option", { value: model.id }, model.id)));
  find("surprise-model").addEventListener("change", update);
  find("legend-steps").append(...STEPS.map((bits, i) => {
    const step = make("i", {}, bits + (i === STEPS.length - 1 ? "+ bits" : ""));
    step.style.setProperty("--heat", heat(bits));
    return step;
  }));
  text.addEventListener("input", update);
  find("example").addEventListener("click", () => {
    text.value = EXAMPLE;
    update();
  });
}

export const refresh = update;
