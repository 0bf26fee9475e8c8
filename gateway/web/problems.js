// What can go wrong, in words a person can act on. `action` is what the notice's button does.

export const problems = {
  microphoneDenied: {
    title: "The microphone is blocked",
    text: "Allow it for this page in the browser’s address bar, then start again. A recording can be dropped here without it.",
    action: "retry",
  },
  microphoneMissing: {
    title: "No microphone found",
    text: "Connect one and start again, or drop a recording on this page.",
    action: "retry",
  },
  microphoneBusy: {
    title: "The microphone cannot be opened",
    text: "Another program may be using it. Close that program and start again.",
    action: "retry",
  },
  microphoneInsecure: {
    title: "The browser allows the microphone only on secure pages",
    text: "Open this page over https, or on localhost. A recording can be dropped here as it is.",
  },
  microphoneUnplugged: {
    title: "The microphone went away",
    text: "What was said until then is transcribed. Reconnect it and start again.",
    action: "retry",
  },
  notAudio: {
    title: "This file could not be read as audio",
    text: "WAV, MP3, FLAC, Ogg, WebM and M4A are understood by most browsers.",
  },
  tooLong: {
    title: "This recording is too long to be played here",
    text: "Up to 30 minutes are played at their own pace. Send longer ones to /v1/audio/transcriptions.",
  },
  unheard: {
    title: "One press is needed",
    text: "Browsers play sound only after a press on the page.",
    action: "play",
  },
  keyMissing: {
    title: "This server asks for an API key",
    text: "Enter it in the settings. It stays in this tab and is forgotten when the tab closes.",
    action: "key",
  },
  keyWrong: {
    title: "The API key was not accepted",
    text: "Check it in the settings; the server’s owner can say which keys are valid.",
    action: "key",
  },
  keyUnsendable: {
    title: "The API key has characters that cannot be sent",
    text: "Keys hold letters, digits and a few signs, no spaces. Was the whole key copied, and nothing else?",
    action: "key",
  },
  unreachable: {
    title: "The server cannot be reached",
    text: "Check that it is running and that this device is online.",
    action: "retry",
  },
  starting: {
    title: "The server is not ready",
    action: "retry",
  },
  full: {
    title: "The server is full",
    text: "Every live stream is taken. Those who speak now come first.",
    action: "retry",
  },
  reconnecting: {
    title: "The connection is interrupted",
    text: "Go on: the last 30 seconds are kept here and sent as soon as the server answers.",
  },
  lost: {
    title: "The connection is lost",
    text: "Your words are kept. Start again when the network is back.",
    action: "retry",
  },
  refused: {
    title: "The server refused this session",
    text: "Other settings may help.",
    action: "settings",
  },
  unfinished: {
    title: "The last words did not arrive",
    text: "The connection ended before the server had answered.",
  },
  voiceless: {
    title: "This server has no voice",
    text: "It was started without one; speechlane serve --help says how voices are named.",
  },
  fullOfListeners: {
    title: "The server is full",
    text: "It speaks to as many listeners as it can without a gap. Those who listen now come first.",
    action: "retry",
  },
  textTooLong: {
    title: "The text is too long",
  },
  refusedText: {
    title: "The server cannot speak this",
  },
  speechFailed: {
    title: "The speech broke off",
    action: "retry",
  },
  speechLost: {
    title: "The connection is lost",
    text: "What was not spoken yet is marked. Go on when the network is back.",
    action: "retry",
  },
  pausedTooLong: {
    title: "The pause was long",
    text: "The server has let go of the speech. Go on where it was.",
    action: "continue",
  },
  notExplained: {
    title: "The text could not be explained",
  },
  conversationLost: {
    title: "The connection is lost",
    text: "What was said is kept on this page. Start again when the network is back; the assistant begins anew.",
    action: "retry",
  },
  conversationOver: {
    title: "The conversation has ended",
    text: "It was silent for long, or has reached its longest. Start again to go on; the assistant begins anew.",
    action: "retry",
  },
  internal: {
    title: "Something went wrong on this page",
    text: "Reload it and try again.",
  },
};

export function problem(id, details = {}) {
  return { id, ...problems[id], ...details };
}

/** A problem for what getUserMedia, decodeAudioData or AudioContext threw. */
export function sourceProblem(error) {
  const known = {
    NotAllowedError: "microphoneDenied",
    NotFoundError: "microphoneMissing",
    OverconstrainedError: "microphoneMissing",
    NotReadableError: "microphoneBusy",
    AbortError: "microphoneBusy",
    SecurityError: "microphoneInsecure",
    NeedsPress: "unheard",
  }[error.name];
  if (known) return problem(known);
  if (error.code === "too-long") return problem("tooLong");
  if (error.code === "not-audio") return problem("notAudio");
  return problem("internal", { text: `${error.message}. Reload the page and try again.` });
}
