// What the server says of itself: its models, and how busy it is.

import { headers } from "./wire.js";

const PATIENCE_MILLISECONDS = 5000;

/** The loaded transcription models. Rejects with {status} when the server refuses, without it when it is away. */
export async function models(key) {
  const response = await ask("/v1/models", key);
  if (!response.ok) throw Object.assign(new Error("models"), { status: response.status });
  return (await response.json()).data;
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

function ask(path, key) {
  return fetch(path, { headers: headers(key), cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MILLISECONDS) });
}
