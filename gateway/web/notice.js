// One problem at a time, with what to do about it. A wait is counted down and then the action is taken by itself.

const LABELS = { retry: "Try again", play: "Play", continue: "Go on", key: "Enter key", settings: "Settings" };

export class Notice {
  #root;
  #onaction;
  #action = null;
  #ticker = 0;

  constructor(root, onaction) {
    this.#root = root;
    this.#onaction = onaction;
    root.querySelector(".act").addEventListener("click", () => this.#act());
    root.querySelector(".dismiss").addEventListener("click", () => this.hide());
  }

  get shown() {
    return !this.#root.hidden;
  }

  show({ id, title, text, action, retryAfter }) {
    this.hide();
    this.#root.dataset.problem = id;
    this.#root.querySelector("strong").textContent = title;
    this.#root.querySelector("p").textContent = text;
    const button = this.#root.querySelector(".act");
    button.hidden = action === undefined;
    button.textContent = LABELS[action] ?? "";
    this.#action = action;
    this.#root.hidden = false;
    if (retryAfter) this.#countDown(button, Math.ceil(retryAfter));
  }

  hide() {
    clearInterval(this.#ticker);
    this.#root.hidden = true;
    this.#root.querySelector(".wait").hidden = true;
    delete this.#root.dataset.problem;
  }

  #countDown(button, seconds) {
    const wait = this.#root.querySelector(".wait");
    let left = seconds;
    const tell = () => {
      wait.textContent = `Trying again in ${left} s`;
    };
    button.textContent = "Try now";
    wait.hidden = false;
    tell();
    this.#ticker = setInterval(() => {
      left -= 1;
      if (left > 0) tell();
      else this.#act();
    }, 1000);
  }

  #act() {
    this.hide();
    this.#onaction(this.#action);
  }
}
