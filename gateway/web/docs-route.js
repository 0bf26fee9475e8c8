// One route, folded up to a line: how it is called, what goes in, what comes back.

import { copyButton, node, paragraphs, phrase } from "./docs-nodes.js";

const EXAMPLE = "http://127.0.0.1:8700";

/** Where the service is, as this page was reached. */
export function base() {
  return new URL(".", location.href).href.replace(/\/$/, "");
}

/** The element of a method of a route. */
export function operationNode(route, { asked: fields, answered }) {
  const { method, path, operation } = route;
  const shown = folded(route, method.toUpperCase(), path, operation.summary);
  const inside = () => [
    ...paragraphs(operation.description ?? ""),
    example(operation["x-codeSamples"]?.[0]?.source),
    part("Parameters", parameters(operation.parameters, fields)),
    ...Object.entries(operation.requestBody?.content ?? {}).map(([media, { schema }]) =>
      part("Body", fields.list(schema) ?? node("p", "", fields.type(schema)), media),
    ),
    part("Answers", answers(operation.responses, answered)),
  ];
  return filledWhenOpen(shown, inside);
}

/** The element of a WebSocket. */
export function socketNode(route, { asked: fields }) {
  const { path, socket } = route;
  const shown = folded(route, "WS", path, socket.name);
  const address = `${base().replace(/^http/, "ws")}${path}`;
  const inside = () => [
    ...paragraphs(socket.summary),
    command(address, "the address"),
    socket.subprotocols.length > 0 && node("p", "", "Subprotocols: ", phrase(socket.subprotocols.map((one) => `\`${one}\``).join(", "))),
    part("Parameters", parameters(socket.parameters, fields)),
    node("p", "", "What is spoken on it: ", guide(socket)),
  ];
  return filledWhenOpen(shown, inside);
}

function folded({ id }, badge, path, summary) {
  const line = node("summary", "", node("span", `method ${badge.toLowerCase()}`, badge), node("code", "path", path));
  line.append(node("span", "what", summary));
  const shown = node("details", "route", line);
  shown.id = id;
  return shown;
}

function filledWhenOpen(shown, inside) {
  const fill = () => {
    if (shown.open && !shown.querySelector(":scope > .body")) shown.append(node("div", "body", ...inside().filter(Boolean)));
  };
  shown.addEventListener("toggle", fill);
  return shown;
}

function guide({ guide, externalDocs }) {
  if (!externalDocs) return node("code", "", `docs/${guide}`);
  const link = node("a", "", guide);
  link.href = externalDocs.url;
  return link;
}

function part(title, content, media = "") {
  if (!content) return null;
  return node("section", "part", node("h4", "", title, media && node("span", "media", media)), content);
}

function parameters(all = [], fields) {
  if (!all.length) return null;
  const rows = all.map(({ name, in: where, schema, required, description }) =>
    fields.row({ name, where, schema, required, description }),
  );
  return node("dl", "fields", ...rows);
}

function answers(responses, fields) {
  const all = Object.entries(responses).sort(([one], [other]) => one - other);
  const list = node("ul", "answers", ...all.map(([status, response]) => answer(status, response, fields)));
  const forms = new Map();
  for (const [status, { content = {} }] of all) {
    const schema = content["application/json"]?.schema;
    if (status >= 400 && schema) forms.set(JSON.stringify(schema), schema);
  }
  const shown = [...forms.values()].map((schema) => unfolding("Fields of an error", fields.list(schema)));
  return node("div", "", list, ...shown);
}

/** A line for a status; what comes with it when all is well is folded up below. */
function answer(status, { description, content = {}, headers = {} }, fields) {
  const kinds = Object.keys(content);
  const head = node("p", "", node("span", `status s${status[0]}`, status), node("span", "", phrase(description)));
  const row = node("li", "", head);
  if (status >= 400) return row;
  if (kinds.length) head.append(node("span", "media", kinds.join(", ")));
  const lists = kinds.map((kind) => content[kind].schema).filter((schema) => schema && fields.inner(schema));
  const named = Object.entries(headers).map(([name, { schema, description: text }]) =>
    fields.row({ name, where: "header", schema, description: text }),
  );
  const inside = [named.length && node("dl", "fields", ...named), ...lists.map((schema) => fields.list(schema))];
  if (inside.some(Boolean)) row.append(unfolding("Its fields", ...inside.filter(Boolean)));
  return row;
}

function unfolding(title, ...inside) {
  return node("details", "inside", node("summary", "", title), ...inside);
}

function example(source) {
  return source ? command(source.replaceAll(EXAMPLE, base()), "the example") : null;
}

function command(text, what) {
  const lines = text.length > 76 ? text.replace(/ (?=(?:-[A-Za-z]|--data-binary) )/g, " \\\n  ") : text;
  return node("div", "command", node("pre", "", node("code", "", lines)), copyButton(() => lines, what));
}
