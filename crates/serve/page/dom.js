// Small helpers for building the page.

export const find = (id) => document.getElementById(id);

// An element with properties, and children that are elements or text.
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("aria-") || key === "role" || key === "scope") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

// Calls `work` when nothing has happened for a moment. `work` gets a function that says whether something newer is on its
// way, so that an answer that comes late does not replace a newer one. Until it is done, `elements` are busy.
export function settled(milliseconds, elements, work) {
  let timer = 0;
  let newest = 0;
  const busy = (is) => elements.forEach((element) => element.setAttribute("aria-busy", is));
  return () => {
    clearTimeout(timer);
    const mine = ++newest;
    busy(true);
    timer = setTimeout(async () => {
      await work(() => mine !== newest);
      if (mine === newest) busy(false);
    }, milliseconds);
  };
}

// A bar list: rows of {word, share, value, special, choose}, share between 0 and 1.
export function showBars(list, rows) {
  list.replaceChildren(...rows.map((row) => {
    const word = make("span", { className: row.special ? "special" : "" }, row.word);
    const bar = make("span", { className: "bar", "aria-hidden": "true" });
    const button = make("button", { type: "button", onclick: row.choose }, word, bar, make("span", { className: "value" }, row.value));
    button.style.setProperty("--share", Math.max(0, Math.min(1, row.share)));
    return make("li", {}, button);
  }));
}

// The special words as people read them.
export const spoken = (word) => (word === "<eos>" ? "end of sentence" : word === "<unk>" ? "a rare word" : word);
