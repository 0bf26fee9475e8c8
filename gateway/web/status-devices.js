// One card for each device: its places for streams, how busy it is, what waits, and the last minutes. Those that take no
// live streams (voice activity, voices apart) have smaller ones.

import { Chart } from "./status-chart.js";
import { bars, fill, pairs, show } from "./status-parts.js";
import { count, percent, plural } from "./status-words.js";

const MOST_PLACES = 48;
const LANES = { final: "finals", partial: "partials", interactive: "voices", bulk: "recordings" };

export class Devices {
  #list;
  #others;
  #cards = new Map();

  /** `others`: the list for those that take no live streams. */
  constructor(list, others) {
    this.#list = list;
    this.#others = others;
  }

  draw({ devices, limit, now, history }) {
    for (const device of devices) {
      if (!this.#cards.has(device.name)) this.#cards.set(device.name, this.#build(device, limit));
      const card = this.#cards.get(device.name);
      const columns = history.devices[device.name] ?? {};
      card.chart.draw(history.at, columns, now);
      const { utilisation, reserved, headroom } = device;
      if (reserved === null) {
        const waiting = Object.values(device.queue).reduce((sum, tasks) => sum + tasks, 0);
        show(card.root.querySelector("h4 small"), `${percent(utilisation)}, ${count(waiting)} waiting`);
        continue;
      }
      places(card.root.querySelector(".places"), device);
      show(card.root.querySelector("h4 small"), room(device));
      show(card.root.querySelector(".carried"), carried(device));
      meter(card.root.querySelector(".meter"), utilisation, reserved);
      const legend = [
        ["Utilisation", percent(utilisation), "of-used"],
        ["Reserved", percent(reserved), "of-reserved"],
        ["Headroom", percent(headroom), "of-headroom"],
        ["Limit", percent(limit), "of-limit"],
      ];
      pairs(card.root.querySelector(".legend"), legend, "div");
      const lanes = Object.entries(device.queue).map(([lane, tasks]) => [LANES[lane] ?? lane, count(tasks)]);
      pairs(card.root.querySelector(".lanes"), lanes, "div");
    }
    for (const [name, { root }] of this.#cards) {
      if (devices.some((device) => device.name === name)) continue;
      root.remove();
      this.#cards.delete(name);
    }
  }

  #build({ name, reserved }, limit) {
    const root = document.createElement("li");
    root.className = "card";
    root.dataset.device = name;
    const head = ["h4", "", [["span", "", name], ["small", "", ""]]];
    const used = { name: "utilisation", key: "utilisation", kind: "area" };
    if (reserved === null) {
      fill(root, [head, ["div", "place", ""]]);
      this.#others.append(root);
      const chart = new Chart(root.querySelector(".place"), { name: `Utilisation of ${name}`, series: [used], format: percent, most: 1 });
      return { root, chart };
    }
    fill(root, [
      head,
      ["div", "", [
        ["p", "places", ""],
        ["p", "carried", ""],
        ["div", "meter", [["span", "reserved", ""], ["span", "used", ""], ["span", "limit", ""]]],
        ["dl", "legend", ""],
        ["p", "waiting", "Waiting for a step, by lane"],
        ["dl", "lanes", ""],
      ]],
      ["div", "place", ""],
    ]);
    root.querySelector(".lanes").setAttribute("aria-label", "Waiting, by lane");
    root.querySelector(".meter").setAttribute("aria-hidden", "true");
    root.querySelector(".limit").style.insetInlineStart = `${limit * 100}%`;
    const series = [used, { name: "reserved", key: "reserved", kind: "second" }];
    const place = root.querySelector(".place");
    const chart = new Chart(place, { name: `Utilisation of ${name}`, series, format: percent, most: 1, limit });
    this.#list.append(root);
    return { root, chart };
  }
}

function room({ streams, free_streams: free }) {
  return free > 0 ? `${plural(streams, "stream")}, room for ${count(free)} more` : `${plural(streams, "stream")}, full`;
}

/** What is known of how many streams fit, and how it is known. */
function carried({ carried: models = [] }) {
  return models.map(({ model, streams, basis }) => `${model}: ${plural(streams, "stream")}, ${basis}`).join(" · ");
}

/** A dot for every stream, and one for every stream that would still be taken. */
function places(row, { streams, free_streams: free }) {
  const all = streams + free;
  row.setAttribute("role", "img");
  row.setAttribute("aria-label", `${count(streams)} of ${plural(all, "place")} for live streams taken`);
  const shown = Math.min(all, MOST_PLACES);
  const taken = all > MOST_PLACES ? Math.round((streams / all) * MOST_PLACES) : streams;
  while (row.querySelectorAll("i:not(.many)").length > shown) row.querySelector("i:not(.many)").remove();
  while (row.querySelectorAll("i:not(.many)").length < shown) row.prepend(document.createElement("i"));
  for (const [n, dot] of row.querySelectorAll("i:not(.many)").entries()) dot.classList.toggle("taken", n < taken);
  const many = row.querySelector(".many") ?? row.appendChild(Object.assign(document.createElement("i"), { className: "many" }));
  show(many, all > MOST_PLACES ? `${count(streams)} of ${count(all)}` : "");
}

function meter(bar, utilisation, reserved) {
  bars(bar.querySelector(".reserved"), reserved);
  bars(bar.querySelector(".used"), utilisation);
}
