// A browser hides why a WebSocket was refused (every refusal reads 1006), so the reason is asked for over HTTP.

import { problem } from "./problems.js";
import { models, readiness } from "./server.js";

const TRY_AGAIN_LATER = 1013;
const RETRY_SECONDS = 5;

const NOT_READY = {
  loading: "It is loading its models.",
  failed: "Its models could not be loaded; the server’s log says why.",
  draining: "It is shutting down or being restarted.",
  device_dead: "Its models have stopped answering; the server’s log says why.",
};

/**
 * Why did this connection end? `error` is the protocol's last error event, if one came before the close, and `opened`
 * whether the session had begun.
 */
export async function diagnose({ code, reason, error, opened }, key) {
  if (code === TRY_AGAIN_LATER) return problem("full", { retryAfter: retrySeconds(`${reason} ${error?.message ?? ""}`) });
  let server;
  try {
    server = await readiness(key);
    if (server.ready) await models(key);
  } catch ({ status }) {
    if (status === undefined) return problem("unreachable");
    if (status === 401 || status === 403) return problem(key ? "keyWrong" : "keyMissing");
    server = { ready: false };
  }
  if (!server.ready) {
    const text = NOT_READY[server.status] ?? NOT_READY.loading;
    return problem("starting", { text, retryAfter: server.retryAfter || RETRY_SECONDS });
  }
  if (error) return problem("refused", { text: error.message });
  // All is well and yet the door stayed shut: there was no room.
  if (!opened) return problem("full", { retryAfter: RETRY_SECONDS });
  return problem("lost");
}

function retrySeconds(text) {
  const seconds = /retry[ -]after\D*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?) ?s\b/i.exec(text);
  return Math.ceil(Number.parseFloat(seconds?.[1] ?? seconds?.[2])) || RETRY_SECONDS;
}
