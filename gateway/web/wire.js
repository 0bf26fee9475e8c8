// The wire: addresses, the session's settings in the protocol's words, and audio as base64.

export function headers(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/**
 * Browsers cannot set headers on a WebSocket, so the key travels as a second subprotocol. The model is in the address
 * because the server decides there and then whether it has room for one more stream of it.
 */
export function openSocket(model, key) {
  const url = new URL("/v1/realtime?intent=transcription", location.href);
  if (model) url.searchParams.set("model", model);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(url, key ? ["realtime", `openai-insecure-api-key.${key}`] : ["realtime"]);
}

export function sessionUpdate(settings, rate) {
  const transcription = { model: settings.model || undefined, language: settings.language || null };
  return {
    type: "session.update",
    event_id: "page_update",
    session: {
      type: "transcription",
      include: ["x.words", "x.unstable", "x.lag"],
      audio: {
        input: {
          format: { type: "audio/pcm", rate },
          transcription,
          turn_detection: { type: "server_vad", silence_duration_ms: settings.silence },
        },
      },
    },
  };
}

/** PCM16 samples to base64 (the page's platforms are all little-endian, as the protocol wants). */
export function encode(samples) {
  const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(binary);
}
