// The stream of changes; without it (too many clients, a proxy that buffers) the same by asking every few seconds.

import { get } from "/console/api.js";

const NAMES = ["status", "rates", "connections", "backends", "refusals", "policy"];
const PAUSE = 3000;

export class Live extends EventTarget {
  constructor() {
    super();
    this.last = {};
    this.source = null;
    this.timer = null;
  }

  start() {
    if (this.source) return;
    this.poll(); // the first figures at once
    this.source = new EventSource("/api/v1/events");
    for (const name of NAMES) this.source.addEventListener(name, (event) => this.tell(name, JSON.parse(event.data)));
    this.source.addEventListener("open", () => this.stopPolling());
    this.source.addEventListener("error", () => {
      this.tell("away", null);
      if (this.source && this.source.readyState === EventSource.CLOSED) this.again();
    });
  }

  stop() {
    this.stopPolling();
    if (this.source) this.source.close();
    this.source = null;
  }

  again() {
    this.stop();
    this.timer = setTimeout(() => { this.timer = null; this.start(); }, PAUSE);
  }

  stopPolling() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  async poll() {
    try {
      this.tell("status", await get("/status"));
      this.tell("rates", await get("/rates"));
    } catch { /* told by whoever asks next */ }
  }

  tell(name, data) {
    if (data !== null) this.last[name] = data;
    this.dispatchEvent(new CustomEvent(name, { detail: data }));
  }
}
