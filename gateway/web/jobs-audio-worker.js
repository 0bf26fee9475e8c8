// A service worker with one duty: the player of the page cannot send an API key, so its requests are sent from here
// with the key. The key is asked of the page for each of them and kept nowhere.

const AUDIO = /^\/v1\/batch\/jobs\/[^/]+\/audio$/;
const PATIENCE_MILLISECONDS = 3000;

addEventListener("install", () => self.skipWaiting());
addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
addEventListener("fetch", (event) => {
  const { origin, pathname } = new URL(event.request.url);
  if (origin === location.origin && AUDIO.test(pathname)) event.respondWith(answer(event));
});

async function answer({ request, clientId }) {
  const fields = new Headers();
  const range = request.headers.get("range");
  if (range) fields.set("Range", range);
  const key = await keyOf(await self.clients.get(clientId));
  if (key) fields.set("Authorization", `Bearer ${key}`);
  return fetch(request.url, { headers: fields, cache: "no-store", signal: request.signal });
}

function keyOf(page) {
  return new Promise((resolve) => {
    if (!page) return resolve("");
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data);
    setTimeout(() => resolve(""), PATIENCE_MILLISECONDS);
    page.postMessage("key", [port2]);
  });
}
