// Options of models: which are proven here, which serve, and what live requests made again say of them.

import { NONE, plural, words } from "./status-words.js";

const $ = (id) => document.getElementById(id);

export function options(models) {
  const known = models.filter((model) => model.options.length > 0 || model.problem);
  $("options-section").hidden = known.length === 0;
  const text = JSON.stringify(known);
  if ($("options").dataset.rows === text) return;
  $("options").dataset.rows = text;
  $("options-notes").replaceChildren(...known.flatMap(notes));
  $("options").replaceChildren(...known.flatMap((model) => model.options.map((one) => row(model.model, one))));
}

function notes({ model, serving, problem, reruns, drift }) {
  const said = [`${model} runs ${serving ? `with ${serving}` : "exactly"}.`];
  if (problem) said.push(`${problem}.`);
  if (reruns.compared) said.push(`${plural(reruns.compared, "request")} made again exactly.`);
  for (const [measure, sum] of Object.entries(drift)) said.push(`Drift in ${measure}: ${sum.toFixed(1)}.`);
  const item = document.createElement("li");
  item.textContent = said.join(" ");
  if (problem) item.className = "trouble";
  return [item];
}

function row(model, { option, state, verdict, gain, serving, why }) {
  const line = document.createElement("tr");
  const told = state === "unproven" && verdict ? `${state}: ${verdict}` : state;
  for (const [n, text] of [model, option, words(told), gain === 1 ? NONE : `${gain.toFixed(2)}×`, serving ? "yes" : NONE, why || NONE].entries()) {
    const cell = document.createElement(n === 0 ? "th" : "td");
    if (n === 0) cell.scope = "row";
    cell.textContent = text;
    line.append(cell);
  }
  return line;
}
