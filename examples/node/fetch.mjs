// Pages through a pool of proxies: next, use, report. Node.js 18.17 or later; needs undici.
//
// usage: node fetch.mjs URL…   prints a line for each page. Exit status 75: no endpoint now, ask again later; 69: no agent; 1: no page
// KOVA_URL  KOVA_TOKEN         the agent, http://127.0.0.1:7412 unless set, and the token that it wants, if any
// KOVA_WAIT_MS                 how long to wait for an endpoint: 30000 fits a batch job; 0 is for where somebody waits for the answer
// KOVA_WHEN_AWAY               what is done without an agent: "stop", the default, or "direct"
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, ProxyAgent, fetch } from "undici";

const POOL = `${process.env.KOVA_URL ?? "http://127.0.0.1:7412"}/v1/pools/exits`;
const WAIT_MS = Number(process.env.KOVA_WAIT_MS ?? 30000);
const TRIES = 5;

// Without a page, what no other endpoint would mend.
const FINAL = { target: "no TLS with the site", cancelled: "not a URL or not an endpoint that undici can use" };

class Paused extends Error {}
class Failed extends Error {}
class Away extends Error {}

const ask = (path, body, timeoutMs) =>
  fetch(`${POOL}/${path}`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: {
      "Content-Type": "application/json",
      ...(process.env.KOVA_TOKEN && { Authorization: `Bearer ${process.env.KOVA_TOKEN}` }),
    },
    signal: AbortSignal.timeout(timeoutMs),
  });

async function nextEndpoint(target) {
  let answer, given;
  try {
    answer = await ask("next", { target, wait_ms: WAIT_MS }, WAIT_MS + 5000);
    given = await answer.json();
  } catch {
    // Yours to choose: to stop keeps every limit; to go on leaves this machine's own address to the site, and nobody counts.
    if (process.env.KOVA_WHEN_AWAY === "direct") return { endpoint: "direct", address: null };
    throw new Away("the agent is away");
  }
  if (given.paused) throw Object.assign(new Paused(given.paused), { retryInMs: given.retry_in_ms });
  if (!answer.ok) throw new Failed(`the agent answers ${answer.status}`);
  return given;
}

async function report(given, outcome, response) {
  if (!given.ticket) return;
  const retryAfter = response?.headers.get("retry-after") ?? undefined;
  await ask("report", { ticket: given.ticket, outcome, status: response?.status, retry_after: retryAfter }, 5000).catch(
    () => {}, // the ticket's lease ends by itself
  );
}

// What a challenge looks like depends on the site: the last line is yours.
function outcomeOf(response, page) {
  if (response.status === 403 || response.status === 429) return "blocked";
  if (response.status >= 400) return "target";
  return page.includes("captcha") ? "captcha" : page.length > 0 ? "ok" : "empty";
}

function outcomeOfError(error) {
  let said = "";
  for (let cause = error; cause; cause = cause.cause) said += `${cause.name} ${cause.code} ${cause.message}\n`;
  const tunnel = /Proxy response \((\d+)\)/.exec(said);
  if (tunnel) return tunnel[1] === "407" ? "auth" : "tunnel";
  if (/TimeoutError|_TIMEOUT|ETIMEDOUT/.test(said)) return "timeout";
  if (/unknown scheme|HTTP\(S\) scheme/.test(said)) return "cancelled";
  return /CERT|ERR_SSL|ERR_TLS/.test(said) ? "target" : "refused";
}

// A connection belongs to one endpoint's address; those of the endpoint's last address are left to end by themselves.
const dispatchers = new Map();
function dispatcherOf({ endpoint, address }) {
  if (address && !/^https?:/i.test(address)) throw new Error("unknown scheme"); // SOCKS is not among undici's
  if (dispatchers.get(endpoint)?.address !== address) {
    dispatchers.set(endpoint, { address, dispatcher: address ? new ProxyAgent(address) : new Agent() });
  }
  return dispatchers.get(endpoint).dispatcher;
}

// The page, and which endpoint got it, of TRIES at most.
async function fetchPage(url) {
  let outcome;
  for (let i = 0; i < TRIES; i++) {
    const given = await nextEndpoint(new URL(url).hostname);
    let response, page;
    try {
      response = await fetch(url, { dispatcher: dispatcherOf(given), signal: AbortSignal.timeout(30000) });
      page = await response.text();
      outcome = outcomeOf(response, page);
    } catch (error) {
      outcome = outcomeOfError(error);
    }
    await report(given, outcome, response);
    if (page !== undefined && (outcome === "ok" || outcome === "target")) {
      return { status: response.status, page, endpoint: given.endpoint };
    }
    if (outcome in FINAL) throw new Failed(`${outcome}: ${FINAL[outcome]}`);
  }
  throw new Failed(outcome);
}

async function patiently(url) {
  for (;;) {
    try {
      return await fetchPage(url);
    } catch (error) {
      if (!(error instanceof Paused)) throw error;
      console.error(`paused: ${error.message}, retry in ${error.retryInMs / 1000} s`);
      if (WAIT_MS === 0) throw error;
      await sleep(Math.max(error.retryInMs, 1000));
    }
  }
}

const STATUS = new Map([[Paused, 75], [Away, 69], [Failed, 1]]);
try {
  for (const url of process.argv.slice(2)) {
    const { status, page, endpoint } = await patiently(url);
    console.log(status, url, page.length, "by", endpoint);
  }
} catch (error) {
  if (!STATUS.has(error.constructor)) throw error;
  if (!(error instanceof Paused)) console.error(`failed: ${error.message}`);
  process.exitCode = STATUS.get(error.constructor);
} finally {
  for (const { dispatcher } of dispatchers.values()) dispatcher.destroy();
}
