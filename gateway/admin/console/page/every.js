// Repeats work while a view is shown and the page is visible.

export function every(milliseconds, signal, act) {
  const timer = setInterval(() => { if (!document.hidden) act(); }, milliseconds);
  signal.addEventListener("abort", () => clearInterval(timer));
}

// Calls `act` with each event of this name while a view is shown.
export function listen(live, name, signal, act) {
  live.addEventListener(name, (event) => act(event.detail), { signal });
}
