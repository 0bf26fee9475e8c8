// The wire: addresses, the session's settings in the protocol's words, and audio as base64.

export function headers(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/**
 * Browsers cannot set headers on a WebSocket, so the key travels as a second subprotocol. The model is in the address
 * because the server decides there and then whether it has room for one more stream of it.
 */
export function openSocket(model, key) {
  return connect("/v1/realtime", { intent: "transcription", ...(model ? { model } : {}) }, "realtime", key);
}

export function openConversation(key) {
  return connect("/v1/realtime", { intent: "conversation" }, "realtime", key);
}

export function openSpeech(key) {
  return connect("/v1/speak", {}, "speak", key);
}

function connect(path, query, subprotocol, key) {
  const url = new URL(path, location.href);
  url.search = new URLSearchParams(query);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(url, key ? [subprotocol, `openai-insecure-api-key.${key}`] : [subprotocol]);
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

/** Base64 to PCM16 samples. */
export function decode(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return new Int16Array(bytes.buffer);
}

export function conversationUpdate({ model, language, silence }, { voice, speed }, rate) {
  const format = { type: "audio/pcm", rate };
  return {
    type: "session.update",
    event_id: "page_update",
    session: {
      type: "realtime",
      include: ["x.words", "x.unstable", "x.timing", "x.interruptions"],
      audio: {
        input: {
          format,
          transcription: { model: model || undefined, language: language || null },
          turn_detection: { type: "server_vad", silence_duration_ms: silence },
        },
        output: { format, voice: voice || undefined, speed },
      },
    },
  };
}
