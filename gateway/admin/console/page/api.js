// Requests to the admin API of the gateway that served this page.

const PREFIX = "/api/v1";

export class Refused extends Error {
  constructor(status, found) {
    super(found.message || `the gateway answers ${status}`);
    this.status = status;
    this.found = found;
  }
}

let onLogin = () => {};
export const whenLoggedOut = (act) => { onLogin = act; };

export async function ask(method, path, query = {}, body = undefined) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const target = PREFIX + path + (given.length ? `?${new URLSearchParams(given)}` : "");
  const options = { method, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) Object.assign(options, { body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  let answer, found;
  try {
    answer = await fetch(target, options);
    found = await answer.json();
  } catch {
    throw new Refused(0, { message: "the gateway does not answer" });
  }
  if (answer.status === 401 && path !== "/session") onLogin();
  if (!answer.ok) throw new Refused(answer.status, found);
  return found;
}

export const get = (path, query) => ask("GET", path, query);

// The items of a short list, at most 1000 of them.
export const items = async (path, query) => (await get(path, { limit: 1000, ...query })).items;
