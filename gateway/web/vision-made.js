// Imagine and Film: what is made, as it becomes clearer, with how it was made beneath it.

import { events, file, json } from "./vision-api.js";

/** A place in the list of what was made; the newest first. */
class Place {
  #media = null;

  constructor(list, text) {
    this.root = document.createElement("figure");
    this.root.dataset.done = "false";
    this.frame = document.createElement("div");
    this.caption = document.createElement("figcaption");
    this.caption.textContent = text;
    this.root.append(this.frame, this.caption);
    list.prepend(this.root);
  }

  show(media) {
    this.#media?.remove();
    this.#media = media;
    this.frame.append(media);
  }

  picture(packed, kind = "png") {
    const image = new Image();
    image.alt = this.caption.textContent;
    image.src = `data:image/${kind};base64,${packed}`;
    this.show(image);
  }

  done(text, facts) {
    this.root.dataset.done = "true";
    this.caption.textContent = text;
    const small = document.createElement("small");
    small.textContent = facts;
    this.caption.append(small);
  }
}

/** Pictures of a text, into `list`. */
export async function imagine(list, prompt, { count, seed, steps, exact }, { key, signal }) {
  const places = Array.from({ length: count }, () => new Place(list, prompt)).reverse();
  const body = { prompt, n: count, stream: true, partial_images: 3, exact };
  try {
    for await (const event of events("v1/images/generations", { key, signal, body: { ...body, ...given({ seed, steps }) } })) {
      const place = places[event.index];
      place.picture(event.b64_json);
      if (event.type === "image_generation.completed") place.done(prompt, facts(event.speechlane));
    }
  } finally {
    for (const place of places) if (place.root.dataset.done === "false") place.root.remove();
  }
}

/** A clip of a text, into `list`; progress(share) is told how far it is. */
export async function film(list, prompt, { seed, steps, exact }, { key, signal, progress }) {
  const place = new Place(list, prompt);
  const body = { prompt, previews: 8, lane: "interactive", exact, ...given({ seed, steps }) };
  let video = null;
  try {
    video = await json("v1/videos", { key, signal, body });
    const path = `v1/videos/${video.id}`;
    for await (const now of events(`${path}/events`, { key, signal })) {
      video = now;
      progress(now.progress / 100);
      if (now.speechlane?.preview) place.picture(now.speechlane.preview);
    }
    if (video.status !== "completed") throw new Error(video.error?.message ?? "It was deleted.");
    const clip = document.createElement("video");
    Object.assign(clip, { controls: true, loop: true, autoplay: true, muted: true });
    clip.src = await file(`${path}/content`, { key, signal });
    place.show(clip);
    place.done(prompt, `${facts(video.speechlane)} · ${video.speechlane.frames} frames`);
  } catch (error) {
    place.root.remove();
    if (video && signal.aborted) json(`v1/videos/${video.id}`, { key, method: "DELETE" }).catch(() => {});
    throw error;
  }
}

function given(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => Number.isInteger(value)));
}

function facts({ seed, seconds, approximation }) {
  const skipped = approximation.skipped ? `, ${approximation.skipped} skipped` : "";
  const cached = approximation.cached_steps ? `, ${approximation.cached_steps} cached` : "";
  const again = approximation.fallback ? " · made again exactly" : "";
  return `seed ${seed} · ${seconds.toFixed(1)} s · ${approximation.evaluations} evaluations${skipped}${cached}${again}`;
}
