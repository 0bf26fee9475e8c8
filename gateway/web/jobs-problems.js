// What can go wrong with recordings, in words a person can act on. The form is that of problems.js.

import { problem } from "./problems.js";
import { size } from "./jobs-words.js";

const TITLES = {
  list: "The recordings could not be listed",
  cancel: "It could not be cancelled",
  retry: "It could not be tried again",
  delete: "It could not be deleted",
  search: "The recordings could not be searched",
  result: "The transcript could not be fetched",
};

/** `what` was being done when the server refused; `key` is the API key it was given. */
export function refusedProblem(what, refused, key) {
  if (refused.status === 0) return problem("unreachable");
  if (refused.status === 401) return problem(key ? "keyWrong" : "keyMissing");
  const gone = refused.status === 404 && !["list", "search"].includes(what);
  const text = gone ? "It is no longer on the server: somebody deleted it, or it expired." : refused.message;
  return { id: `refused-${what}`, title: TITLES[what], text, action: what === "list" ? "retry" : undefined };
}

/** One sentence for an upload's row. */
export function uploadTrouble(error, file) {
  if (error.name === "NotReadableError" || error.name === "NotFoundError") {
    return "The file can no longer be read: it was changed, moved or deleted. Choose it again.";
  }
  if (error.status === 401) return "The server asks for an API key. Enter it in the settings, then try again.";
  if (error.status === 413) return `${size(file.size)} is more than this server takes. ${error.message}`;
  if (error.status === 507) return `The server has no room for it. ${error.message}`;
  return error.status === undefined ? `${error.message}. Try again.` : error.message;
}

/** Why the player is silent. */
export const silentPlayer = "This browser cannot play it";
