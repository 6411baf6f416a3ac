// What comes from the program that serves this page: its stream of events, and answers to calls.

const TOKEN = "kova-token";
const QUIET_MS = 5000; // as long without an event is too long
const HIDDEN_MS = 60000; // nobody has looked for so long: the stream is let go
const BACKOFF_MS = [500, 1000, 2000, 4000, 8000, 15000];

export const token = {
  get: () => sessionStorage.getItem(TOKEN) || "",
  set: (text) => sessionStorage.setItem(TOKEN, text),
  forget: () => sessionStorage.removeItem(TOKEN),
};

function headers() {
  const text = token.get();
  return text === "" ? {} : { Authorization: `Bearer ${text}` };
}

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function problem(answer) {
  const body = await answer.json().catch(() => ({}));
  return new Refused(answer.status, body.detail || answer.statusText || `status ${answer.status}`);
}

// Calls the API; resolves to the body's value, or null if there is none. Throws Refused.
export async function call(method, path, body) {
  const options = { method, headers: headers(), cache: "no-store" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, options).catch(() => {
    throw new Refused(0, "the agent can't be reached");
  });
  if (!answer.ok) throw await problem(answer);
  return answer.status === 204 ? null : answer.json();
}

// Gives `on(event, data)` each event of a stream of bytes.
async function read(body, on) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const event = lines.find((line) => line.startsWith("event: "));
      const data = lines.find((line) => line.startsWith("data: "));
      if (event && data) on(event.slice(7), JSON.parse(data.slice(6)));
    }
  }
}

/*
 * Follows the stream at `path` for good: `on.event(name, data)`, `on.state("live" | "quiet" | "lost" | "locked", detail)`.
 * EventSource can't bring a token, hence fetch(). What is lost is asked for again, ever less often; who lacks a token waits for
 * the function that is returned, which begins anew.
 */
export function follow(path, on) {
  let attempt = 0;
  let heard = 0;
  let abort = null;
  let timer = 0;
  let hidden = 0;

  async function run() {
    const mine = new AbortController();
    clearTimeout(timer);
    if (abort) abort.abort();
    abort = mine;
    heard = Date.now();
    try {
      const answer = await fetch(path, { headers: headers(), cache: "no-store", signal: mine.signal });
      if (answer.status === 401 || answer.status === 403) {
        on.state("locked", (await problem(answer)).message);
        abort = null;
        return;
      }
      if (!answer.ok) throw await problem(answer);
      await read(answer.body, (name, data) => {
        heard = Date.now();
        attempt = 0;
        on.state("live");
        on.event(name, data);
      });
      throw new Error("the stream has ended");
    } catch (error) {
      if (abort !== mine) return;
      abort = null;
      const wait = BACKOFF_MS[Math.min(attempt++, BACKOFF_MS.length - 1)] * (0.75 + Math.random() / 2);
      on.state("lost", error.message);
      if (!document.hidden) timer = setTimeout(run, wait);
    }
  }

  setInterval(() => {
    if (abort && Date.now() - heard > QUIET_MS) {
      on.state("quiet");
      if (Date.now() - heard > 3 * QUIET_MS) run();
    }
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (!document.hidden) {
      if (!abort) run();
      return;
    }
    hidden = setTimeout(() => {
      const last = abort;
      abort = null;
      if (last) last.abort();
    }, HIDDEN_MS);
  });
  run();
  return run;
}
