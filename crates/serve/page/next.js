// The likeliest next words of two models, while one types.

import { find, make, settled, showBars, spoken } from "./dom.js";
import { ask, sentence } from "./server.js";

const phrase = find("phrase");
const sides = [0, 1].map((side) => ({
  select: find("next-model-" + side), list: find("next-list-" + side), why: find("next-why-" + side), first: null,
}));

function append(word) {
  const end = word === "<eos>" ? "\n" : (phrase.value && !/\s$/.test(phrase.value) ? " " : "") + word + " ";
  phrase.value = (word === "<eos>" ? phrase.value.trimEnd() : phrase.value) + end;
  phrase.focus();
  phrase.setSelectionRange(phrase.value.length, phrase.value.length);
  update();
}

// The bars of one side. Those of both have the same scale: the likeliest word of the two models fills its row.
function show(side, next, largest) {
  side.first = next.find(({ word }) => word !== "<unk>")?.word ?? null;
  showBars(side.list, next.map(({ word, probability }) => ({
    word: spoken(word),
    special: word.startsWith("<"),
    share: probability / largest,
    value: percent(probability),
    choose: () => append(word),
  })));
}

// Why these words? What a model with topics or a pointer says of itself; nothing for the others.
function explain(side, explanation) {
  const lines = (explanation?.topics ?? []).map(({ share, words }) => `${percent(share)} about ${words.slice(0, 5).join(", ")}`);
  if (explanation?.pointer) {
    lines.push(`${percent(explanation.pointer.softmax)} from the softmax`);
    for (const { word, back, share } of explanation.pointer.words.slice(0, 5).filter(({ share }) => share >= 0.0005)) {
      lines.push(`${percent(share)} points to \u201c${spoken(word)}\u201d, ${back === 1 ? "the last word" : `${back} words back`}`);
    }
  }
  side.why.hidden = lines.length === 0;
  side.why.replaceChildren(make("h3", {}, "Why these words?"), make("ul", {}, ...lines.map((line) => make("li", {}, line))));
}

function percent(probability) {
  const hundred = probability * 100;
  return (hundred >= 10 ? hundred.toFixed(0) : hundred >= 1 ? hundred.toFixed(1) : hundred.toFixed(2)) + "\u2009%";
}

const update = settled(120, sides.map((side) => side.list), async (outdated) => {
  const note = find("next-note");
  try {
    const text = phrase.value;
    const used = sides.filter((side) => side.select.value);
    const hides = find("hide-unk").checked;
    const answers = await Promise.all(used.map((side) => ask("/api/next", { model: side.select.value, text, k: hides ? 13 : 12, explain: true })));
    if (outdated()) return;
    for (const answer of answers) {
      answer.next = answer.next.filter(({ word }) => !hides || word !== "<unk>").slice(0, 12);
    }
    const largest = Math.max(...answers.map((answer) => answer.next[0]?.probability || 0)) || 1;
    used.forEach((side, i) => show(side, answers[i].next, largest));
    used.forEach((side, i) => explain(side, answers[i].explanation));
    const unknown = [...new Set(answers.flatMap((answer) => answer.unknown))];
    note.textContent = unknown.length === 0 ? ""
      : `${unknown.map((word) => `\u201c${word}\u201d`).join(", ")} ${unknown.length > 1 ? "are" : "is"} not in the vocabulary and read as a rare word.`;
  } catch (error) {
    if (!outdated()) note.textContent = sentence(error);
  }
});

export function start(models) {
  sides.forEach((side, number) => {
    side.select.append(...models.map((model) => make("option", { value: model.id }, model.id)));
    side.select.value = models[Math.min(number, models.length - 1)].id;
    side.select.addEventListener("change", update);
  });
  // One model stands alone.
  if (models.length === 1) {
    sides[1].select.value = "";
    sides[1].list.closest("article").hidden = true;
  }
  phrase.addEventListener("input", update);
  find("hide-unk").addEventListener("change", update);
  phrase.addEventListener("keydown", (event) => {
    const atEnd = phrase.selectionStart === phrase.value.length && phrase.value !== "";
    if (event.key === "Tab" && !event.shiftKey && !event.ctrlKey && !event.altKey && atEnd && sides[0].first) {
      event.preventDefault();
      append(sides[0].first);
    } else if (event.key === "Escape") {
      // The way out for the keyboard: Escape, and Tab moves on again.
      find("undo").focus();
    }
  });
  find("undo").addEventListener("click", () => {
    phrase.value = phrase.value.replace(/\S*\s*$/, "");
    update();
  });
  update();
}

export const refresh = update;
