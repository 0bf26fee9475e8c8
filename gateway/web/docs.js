// The page that reads the service's own OpenAPI document: grouped, searchable, with an example for every route.

import { Fields } from "./docs-fields.js";
import { node, paragraphs, phrase } from "./docs-nodes.js";
import { operationNode, socketNode } from "./docs-route.js";

const METHODS = ["get", "head", "post", "put", "patch", "delete", "options"];
const $ = (id) => document.getElementById(id);

/** Everything that has a line, group by group. */
function groups({ tags, paths, "x-websockets": sockets }) {
  const routes = Object.entries(paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => {
      const operation = item[method];
      return { id: operation.operationId, tag: operation.tags[0], method, path, operation };
    }),
  );
  const sides = sockets.map((socket) => ({ id: `ws${socket.path}`, tag: socket.tag, path: socket.path, socket }));
  return tags.map((tag) => ({ ...tag, routes: [...routes, ...sides].filter((route) => route.tag === tag.name) }));
}

function words({ method = "ws websocket", path, tag, operation, socket }, fields) {
  const { summary, description = "", parameters = [], requestBody } = operation ?? socket;
  const bodies = Object.values(requestBody?.content ?? {}).flatMap(({ schema }) => fields.names(schema));
  const named = parameters.map(({ name }) => name);
  return [method, path, tag, summary, socket?.name, description, ...named, ...bodies].join(" ").toLowerCase();
}

function show(document_) {
  const { schemas } = document_.components;
  const fields = { asked: new Fields(schemas, false), answered: new Fields(schemas, true) };
  $("description").append(...paragraphs(document_.info.description));
  $("version").textContent = `Version ${document_.info.version}`;
  $("keys").textContent = document_.security ? "Asks for a key: Authorization: Bearer KEY" : "Asks for no key";
  const all = groups(document_).map((group) => {
    const id = group.name.toLowerCase().replace(/\W+/g, "-");
    const title = node("h3", "", group.name);
    title.id = id;
    const routes = group.routes.map((route) => ({
      shown: route.socket ? socketNode(route, fields) : operationNode(route, fields),
      text: words(route, fields.asked),
    }));
    const link = node("a", "", group.name);
    link.href = `#${id}`;
    const section = node("section", "group", title, node("p", "about", phrase(group.description)), ...routes.map(({ shown }) => shown));
    section.setAttribute("aria-labelledby", id);
    $("groups").append(section);
    $("contents").append(link);
    return { section, link, routes };
  });
  $("search").addEventListener("input", () => filter(all));
  addEventListener("hashchange", reveal);
  filter(all);
  reveal();
}

function filter(all) {
  const wanted = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { section, link, routes } of all) {
    let some = false;
    for (const { shown, text } of routes) {
      shown.hidden = !wanted.every((word) => text.includes(word));
      some ||= !shown.hidden;
      count += shown.hidden ? 0 : 1;
    }
    section.hidden = link.hidden = !some;
  }
  $("nothing").hidden = count > 0;
  $("found").textContent = wanted.length ? `${count} found` : `${count} routes`;
}

/** Open what the address points at. */
function reveal() {
  const target = $(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.matches("details")) target.open = true;
  target.scrollIntoView();
}

addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape" && typing) {
    $("search").value = "";
    $("search").dispatchEvent(new Event("input"));
  }
});

try {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  show(await answer.json());
} catch (error) {
  $("failed").textContent = `The document could not be read: ${error.message}. Load the page again in a moment.`;
  $("failed").hidden = false;
}
document.body.dataset.state = "ready";
