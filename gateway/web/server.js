// What the server says of itself: its models, and how busy it is.

import { headers } from "./wire.js";

const PATIENCE_MILLISECONDS = 5000;

/** The loaded transcription models. Rejects with {status} when the server refuses, without it when it is away. */
export function models(key) {
  return list("/v1/models", key);
}

/** The loaded voices, the default first. Rejects as `models` does. */
export function voices(key) {
  return list("/v1/voices", key);
}

/**
 * How a text is read: {tokens: [{written, spoken, rule, phonemes, start, end}], removed, segments}; characters are code
 * points. Rejects with {status} and the server's message when it refuses.
 */
export async function explain(input, { voice, split }, key) {
  const body = JSON.stringify({ input, voice, split });
  const response = await ask("/v1/text/explain", key, { method: "POST", body });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.error?.message), { status: response.status });
  return answer;
}

/**
 * {ready, status, retryAfter} and, for those who may look, {utilisation: 0..1, streams, free}; status is "ready",
 * "loading", "failed", "draining" or "device_dead". Rejects when the server is away.
 */
export async function readiness(key) {
  const response = await ask("/readyz", key);
  const { status, devices, sessions, max_sessions: most } = await response.json();
  const ready = response.ok;
  const retryAfter = Number.parseFloat(response.headers.get("retry-after"));
  if (devices === undefined) return { ready, status, retryAfter };
  // The device with the least room decides whether one more stream is taken.
  const free = Math.min(most - sessions, ...devices.map((device) => device.free_streams));
  const utilisation = Math.min(1, Math.max(...devices.map((device) => device.utilisation)));
  return { ready, status, retryAfter, utilisation, streams: sessions, free };
}

async function list(path, key) {
  const response = await ask(path, key);
  if (!response.ok) throw Object.assign(new Error(path), { status: response.status });
  return (await response.json()).data;
}

function ask(path, key, request = {}) {
  const signal = AbortSignal.timeout(PATIENCE_MILLISECONDS);
  return fetch(path, { ...request, headers: headers(key), cache: "no-store", signal });
}
