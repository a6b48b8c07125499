// Talks to the server, and says so when it does not answer.

import { find } from "./dom.js";

let key = sessionStorage.getItem("bowline-key") || "";
const waitingForKey = [];

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function trouble(text) {
  const box = find("trouble");
  box.hidden = !text;
  if (box.textContent !== text) box.textContent = text;
}

find("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = find("key").value.trim();
  sessionStorage.setItem("bowline-key", key);
  find("key-form").hidden = true;
  for (const go of waitingForKey.splice(0)) go();
});

// The JSON answer to a request. Throws a Refusal if the server answers no, and another error if it does not answer.
export async function ask(path, body) {
  for (let attempt = 0; ; attempt++) {
    const headers = key ? { authorization: "Bearer " + key } : {};
    let response;
    try {
      response = body
        ? await fetch(path, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) })
        : await fetch(path, { headers });
    } catch (error) {
      trouble("The server does not answer. Is it still running? The page continues when it is back.");
      throw error;
    }
    if (response.status === 401) {
      find("key-form").hidden = false;
      find("key").focus();
      await new Promise((go) => waitingForKey.push(go));
      continue;
    }
    trouble("");
    // Full for a moment: once more, a little later.
    if (response.status === 503 && attempt < 3) {
      await new Promise((go) => setTimeout(go, 400 * (attempt + 1)));
      continue;
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Refusal(response.status, answer.error?.message || "The server answered " + response.status + ".");
    return answer;
  }
}

// Sends a request whose answer comes bit by bit, as server-sent events, and calls `each` with every bit.
export async function stream(path, body, signal, each) {
  const headers = { "content-type": "application/json", ...(key ? { authorization: "Bearer " + key } : {}) };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Refusal(response.status, answer.error?.message || "The server answered " + response.status + ".");
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: ") && line !== "data: [DONE]") each(JSON.parse(line.slice(6)));
    }
  }
}

// An error as a sentence for people, or nothing where it is shown elsewhere.
export const sentence = (error) => (error instanceof Refusal ? error.message.split("\n")[0] : "");
