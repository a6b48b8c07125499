// Generated text, word by word as the words are drawn.

import { find, make } from "./dom.js";
import { sentence, stream } from "./server.js";

let halt = null;

async function tell(event) {
  event.preventDefault();
  halt?.abort();
  const mine = halt = new AbortController();
  const [note, told, prompt] = [find("continue-note"), find("told"), find("prompt").value];
  note.textContent = "";
  const drawn = make("span", { className: "drawn" });
  told.replaceChildren(make("span", {}, prompt), drawn);
  find("halt").disabled = false;
  const number = (id) => Number(find(id).value);
  const body = {
    model: find("continue-model").value, prompt, max_tokens: number("amount"), temperature: number("temperature"),
    seed: number("seed"), stream: true,
  };
  try {
    await stream("/v1/completions", body, mine.signal, (part) => drawn.append(part.choices?.[0]?.text ?? ""));
  } catch (error) {
    if (error.name !== "AbortError") note.textContent = sentence(error);
  }
  if (mine === halt) find("halt").disabled = true;
}

export function start(models) {
  find("continue-model").append(...models.map((model) => make("option", { value: model.id }, model.id)));
  find("continue-form").addEventListener("submit", tell);
  find("halt").addEventListener("click", () => halt?.abort());
}

export const refresh = () => {};
