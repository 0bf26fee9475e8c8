// The jobs, newest first, each row kept up to date; what is shown of them is chosen by state and name.

import { ENDED, element, facts, iconButton, READABLE, when } from "./jobs-words.js";

const UNDO_SECONDS = 6;
const SURE_MILLISECONDS = 4000;

const FILTERS = {
  all: () => true,
  active: (job) => !ENDED.includes(job.state),
  done: (job) => READABLE.includes(job.state),
  failed: (job) => ["failed", "cancelled"].includes(job.state),
};

export class JobList {
  #list;
  #filters;
  #search;
  #on;
  #rows = new Map(); // by job id, in no order
  #order = []; // rows, newest first
  #filter = "all";
  #changed = new Map();
  #now;

  /** on.act(job, "cancel" | "retry"), on.remove(job) → promise, on.shown(). `now()`: the server's time in seconds. */
  constructor({ list, filters, search, now, on }) {
    this.#list = list;
    this.#filters = filters;
    this.#search = search;
    this.#now = now;
    this.#on = on;
    filters.addEventListener("click", ({ target }) => this.#choose(target.closest("[data-filter]")?.dataset.filter));
    search.addEventListener("input", () => this.#show());
  }

  get size() {
    return this.#rows.size;
  }

  some(matches) {
    return this.#order.some(({ job }) => matches(job));
  }

  get(id) {
    return this.#rows.get(id)?.job;
  }

  /** The oldest that is known: where the next page of older ones begins. */
  get oldest() {
    return this.#order.at(-1)?.job.id;
  }

  /** Every change within a frame is drawn once. */
  put(job) {
    if (this.#changed.size === 0) requestAnimationFrame(() => this.flush());
    this.#changed.set(job.id, job);
  }

  flush() {
    const jobs = [...this.#changed.values()];
    this.#changed.clear();
    for (const job of jobs) this.#update(job);
    this.#show();
  }

  /** Only these are left: what is not among them was deleted elsewhere. `since`: what is older was not asked for. */
  keep(ids, since) {
    for (const [id, { job }] of this.#rows) if (job.created >= since && !ids.has(id)) this.#forget(id);
    this.#show();
  }

  remove(id) {
    this.#forget(id);
    this.#show();
  }

  clear() {
    for (const id of [...this.#rows.keys()]) this.#forget(id);
    this.#show();
  }

  /** Count down to the deletion, in which it can be taken back. */
  removeSoon(id) {
    const row = this.#rows.get(id);
    if (!row || row.timer) return;
    row.item.classList.add("leaving");
    const undo = element("button", "undo", "Undo");
    undo.type = "button";
    undo.addEventListener("click", () => this.#stay(row));
    let left = UNDO_SECONDS;
    const tell = () => (row.line.textContent = `Will be deleted in ${left} s`);
    tell();
    row.actions.replaceChildren(undo);
    row.timer = setInterval(async () => {
      left -= 1;
      if (left > 0) return tell();
      clearInterval(row.timer);
      undo.disabled = true;
      row.line.textContent = "Being deleted";
      if (await this.#on.remove(row.job)) this.remove(id);
      else this.#stay(row);
    }, 1000);
    undo.focus({ preventScroll: true });
  }

  #stay(row) {
    clearInterval(row.timer);
    row.timer = 0;
    row.item.classList.remove("leaving");
    this.#draw(row);
    row.link.focus({ preventScroll: true });
  }

  focus(id) {
    this.#rows.get(id)?.link.focus({ preventScroll: true });
  }

  #update(job) {
    let row = this.#rows.get(job.id);
    if (!row) {
      row = newRow(job);
      this.#rows.set(job.id, row);
      const last = this.#order.at(-1);
      const oldest = last === undefined || older(job, last.job);
      const at = oldest ? this.#order.length : this.#order.findIndex((other) => older(other.job, job));
      this.#list.insertBefore(row.item, this.#order[at]?.item ?? null);
      this.#order.splice(at, 0, row);
    }
    row.job = job;
    if (!row.timer) this.#draw(row);
  }

  #forget(id) {
    const row = this.#rows.get(id);
    if (!row) return;
    clearInterval(row.timer);
    row.item.remove();
    this.#rows.delete(id);
    this.#order.splice(this.#order.indexOf(row), 1);
  }

  #draw(row) {
    const { job, item } = row;
    const ended = ENDED.includes(job.state);
    item.dataset.state = job.state;
    const said = facts(job, this.#now(), { brief: true }).join(" · ");
    row.line.textContent = job.state === "failed" && job.error ? job.error : said;
    row.when.textContent = when(job.created);
    row.progress.hidden = ended;
    if (!ended) {
      const percent = Math.round(job.progress * 1000) / 10;
      row.bar.style.inlineSize = `${percent}%`;
      row.progress.setAttribute("aria-valuenow", String(Math.round(percent)));
    }
    if (row.drawn === job.state && row.actions.firstChild && !row.actions.querySelector(".undo")) return;
    row.drawn = job.state;
    row.actions.replaceChildren(...this.#buttons(row, ended));
  }

  #buttons(row, ended) {
    if (!ended) return [sure("#i-close", `Cancel ${row.job.name}`, "Cancel?", () => this.#on.act(row.job, "cancel"))];
    const again = iconButton("#i-retry", `Try ${row.job.name} again`);
    again.addEventListener("click", () => this.#on.act(row.job, "retry"));
    const remove = iconButton("#i-delete", `Delete ${row.job.name}`);
    remove.addEventListener("click", () => this.removeSoon(row.job.id));
    return row.job.state === "done" ? [remove] : [again, remove];
  }

  #choose(filter) {
    if (!filter) return;
    this.#filter = filter;
    for (const button of this.#filters.querySelectorAll("[data-filter]")) {
      button.setAttribute("aria-pressed", String(button.dataset.filter === filter));
    }
    this.#show();
  }

  #show() {
    const wanted = this.#search.value.trim().toLocaleLowerCase();
    const counts = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, 0]));
    let shown = 0;
    for (const { job, item } of this.#order) {
      const named = !wanted || job.name.toLocaleLowerCase().includes(wanted);
      for (const [name, matches] of Object.entries(FILTERS)) if (named && matches(job)) counts[name] += 1;
      const visible = named && FILTERS[this.#filter](job);
      if (item.hidden === visible) item.hidden = !visible;
      shown += visible;
    }
    for (const button of this.#filters.querySelectorAll("[data-filter]")) {
      button.querySelector("span").textContent = counts[button.dataset.filter].toLocaleString();
    }
    this.#on.shown(shown);
  }
}

/** A button that does it only when pressed again soon. */
export function sure(icon, label, question, act) {
  const button = iconButton(icon, label);
  let timer = 0;
  const calm = () => {
    button.classList.remove("sure");
    delete button.dataset.question;
    button.setAttribute("aria-label", label);
  };
  button.addEventListener("click", () => {
    clearTimeout(timer);
    if (button.classList.contains("sure")) {
      calm();
      act();
      return;
    }
    button.classList.add("sure");
    button.dataset.question = question;
    button.setAttribute("aria-label", `${label}: press again if you are sure`);
    timer = setTimeout(calm, SURE_MILLISECONDS);
  });
  return button;
}

function older(one, other) {
  return one.created < other.created || (one.created === other.created && one.id < other.id);
}

function newRow(job) {
  const item = element("li", "row job");
  const link = element("a", "name", job.name);
  link.href = `#${encodeURIComponent(job.id)}`;
  link.title = job.name;
  const body = element("div", "body");
  const line = element("p", "line");
  const progress = element("div", "progress");
  progress.setAttribute("role", "progressbar");
  progress.setAttribute("aria-label", `Progress of ${job.name}`);
  progress.setAttribute("aria-valuemin", "0");
  progress.setAttribute("aria-valuemax", "100");
  const bar = element("span");
  progress.append(bar);
  body.append(link, line, progress);
  const created = element("span", "when");
  const actions = element("div", "actions");
  item.append(element("span", "dot"), body, created, actions);
  return { job, item, link, line, progress, bar, when: created, actions, timer: 0, drawn: "" };
}
