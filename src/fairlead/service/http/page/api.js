// Requests to the service, with the token of this tab.

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }

  get wantsToken() {
    return this.status === 401 || this.status === 403;
  }
}

let token = sessionStorage.getItem("token") || "";

export const hasToken = () => token !== "";

export function setToken(text) {
  token = text;
  sessionStorage.setItem("token", text);
}

const headers = () => (token ? { Authorization: `Bearer ${token}` } : {});

async function answerOf(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body.detail || response.statusText);
  return body;
}

export async function ask(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
  const query = new URLSearchParams(given).toString();
  const target = query ? `${path}?${query}` : path;
  return answerOf(await fetch(target, { headers: headers(), cache: "no-store" }));
}

// Sends a change. With its key, the change is made once, even if the request arrives twice.
export async function change(method, path, body = undefined) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const key = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const sent = { ...headers(), "Idempotency-Key": key };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  return answerOf(await fetch(path, { method, headers: sent, body: body && JSON.stringify(body) }));
}

// Calls `onEvent` with every event of a stream, until its end. EventSource cannot send a token.
export async function follow(path, onEvent, signal) {
  const response = await fetch(path, { headers: headers(), cache: "no-store", signal });
  if (!response.ok) await answerOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) if (event.startsWith("data: ")) onEvent(JSON.parse(event.slice(6)));
  }
}
