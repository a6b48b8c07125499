// A text with each word coloured by its surprise: minus the binary logarithm of its probability.

import { find, make, settled, showBars, spoken } from "./dom.js";
import { ask, sentence } from "./server.js";

const STEPS = [0, 2, 4, 6, 8, 10, 12, 14];
const MOST = 14;

const heat = (bits) => Math.min(1, Math.max(0, bits) / MOST);
const text = find("text");

// What is said of a chosen word, and the words that were expected in its place as bars.
function choose(word, bits) {
  find("surprise-detail").textContent = detail(word, bits);
  const most = word.top[0]?.[1] || 1;
  showBars(find("surprise-top"), word.top.map(([other, probability]) => ({
    word: spoken(other),
    special: other.startsWith("<"),
    share: probability / most,
    value: `${(100 * probability).toFixed(probability < 0.1 ? 1 : 0)}\u2009%`,
    choose: () => {},
  })));
}

function detail(word, bits) {
  const shown = word.word === "<eos>" ? "the end of the sentence" : `\u201c${word.word}\u201d`;
  const unknown = word.unknown ? ", which the model does not know and reads as a rare word," : "";
  return `${shown}${unknown}: ${bits.toFixed(1)} bits, one in ${Math.round(2 ** bits).toLocaleString("en")}. Expected here:`;
}

function wordButton(word) {
  const bits = -word.logprob / Math.LN2;
  const end = word.word === "<eos>";
  const button = make("button", {
    type: "button",
    className: (word.unknown ? "unknown" : "") + (end ? " end" : ""),
    title: `${bits.toFixed(1)} bits`,
    "aria-label": `${end ? "end of sentence" : word.word}, ${bits.toFixed(1)} bits`,
    onclick: () => choose(word, bits),
  }, end ? "\u00b6" : word.word);
  button.style.setProperty("--heat", heat(bits).toFixed(3));
  return button;
}

const update = settled(250, [find("surprise-words")], async (outdated) => {
  const [words, sum, note] = [find("surprise-words"), find("surprise-sum"), find("surprise-detail")];
  find("surprise-top").replaceChildren();
  if (!text.value.trim()) {
    for (const element of [words, sum, note]) element.replaceChildren();
    return;
  }
  try {
    const answer = await ask("/api/score", { model: find("surprise-model").value, text: text.value.trimEnd(), carry: true, top: 6 });
    if (outdated()) return;
    const known = answer.words.filter((word) => !word.unknown);
    const unknown = answer.words.length - known.length;
    const ofKnown = Math.exp(-known.reduce((all, word) => all + word.logprob, 0) / Math.max(1, known.length));
    const figure = (value, name) => make("span", {}, make("strong", {}, value), name);
    sum.replaceChildren(
      figure(answer.perplexity.toFixed(1), "perplexity"),
      figure((-answer.logprob / Math.LN2 / answer.tokens).toFixed(2), "bits a word"),
      figure(String(answer.tokens), answer.tokens === 1 ? "word" : "words and line ends"),
      ...(unknown ? [figure(String(unknown), unknown === 1 ? "unknown word" : "unknown words"), figure(ofKnown.toFixed(1), "perplexity without them")] : []),
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
  find("example").addEventListener("click", async () => {
    try {
      const answer = await ask("/api/example?model=" + encodeURIComponent(find("surprise-model").value));
      if (answer.lines.length === 0) {
        find("surprise-detail").textContent = "The text that this model was trained on is not here any more. Paste one of your own.";
        return;
      }
      text.value = answer.lines.join("\n");
      update();
    } catch (error) {
      find("surprise-detail").textContent = sentence(error);
    }
  });
}

export const refresh = update;
