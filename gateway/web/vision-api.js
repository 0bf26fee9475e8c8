// What the page asks of the server: answers that come in parts, as server-sent events read from a fetch.

import { headers } from "./wire.js";

/** A refusal, in the server's own words. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The objects of a stream of events; ends with [DONE] or the connection. Rejects with Refused, or what fetch rejects with. */
export async function* events(path, { key, body, signal }) {
  const response = await asked(path, { key, body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      const data = JSON.parse(line.slice(6));
      if (data.error?.type) throw new Refused(response.status, data.error.message);
      yield data;
    }
  }
}

/** What the server answers to a GET, or to a POST of `body`. */
export async function json(path, options) {
  return (await asked(path, options)).json();
}

/** A file, as an address that the page can show until it is revoked. */
export async function file(path, options) {
  return URL.createObjectURL(await (await asked(path, options)).blob());
}

async function asked(path, { key, body, signal, method }) {
  const request = { headers: { ...headers(key), "Content-Type": "application/json" }, cache: "no-store", signal };
  if (body !== undefined) Object.assign(request, { method: "POST", body: JSON.stringify(body) });
  if (method) request.method = method;
  const response = await fetch(path, request);
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new Refused(response.status, answer.error?.message ?? `The server answered ${response.status}.`);
}
