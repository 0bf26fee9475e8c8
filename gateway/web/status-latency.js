// Percentiles of the three waits that people notice, and how they went.

import { Chart } from "./status-chart.js";
import { fill, show } from "./status-parts.js";
import { latency, plural } from "./status-words.js";

const WAITS = {
  final: ["Finals", "end of an utterance → its final text", "final"],
  round_trip: ["Partials", "audio arrives → the partial that covers it", "partial"],
  first_sound: ["First sound", "first text of a speech → its first sound", "speech"],
};

const seconds = (value) => (value < 1 ? latency(value) : `${value} s`);

export class Latencies {
  #cards = {};

  constructor(list) {
    for (const [key, [title, meaning]] of Object.entries(WAITS)) {
      const root = document.createElement("li");
      root.className = "card";
      root.dataset.wait = key;
      fill(root, [
        ["h4", "", [["span", "", title], ["small", "", ""]]],
        ["dl", "percentiles", [["div", "main", [["dt", "", "95th percentile"], ["dd", "p95", ""]]], ["div", "", [["dt", "", "median"], ["dd", "p50", ""]]], ["div", "", [["dt", "", "99th"], ["dd", "p99", ""]]]]],
        ["div", "place", ""],
        ["p", "note", meaning],
      ]);
      list.append(root);
      const series = [
        { name: "95th percentile", key: "p95", kind: "area" },
        { name: "median", key: "p50", kind: "second" },
      ];
      const chart = new Chart(root.querySelector(".place"), { name: `${title}, 95th percentile`, series, format: latency, axis: seconds, least: 0.1 });
      this.#cards[key] = { root, chart };
    }
  }

  draw({ latency: waits, history, now }) {
    for (const [key, { root, chart }] of Object.entries(this.#cards)) {
      const wait = waits[key];
      for (const quantile of ["p50", "p95", "p99"]) show(root.querySelector(`.${quantile}`), latency(wait[quantile]));
      show(root.querySelector("h4 small"), wait.count > 0 ? `${plural(wait.count, WAITS[key][2])}` : "none lately");
      chart.draw(history.at, history.latency[key], now);
    }
  }
}
