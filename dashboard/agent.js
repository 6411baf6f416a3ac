// The agent's dashboard: what each event of /v1/stream says goes to its place on the page.

import { $, say, rows, facts, list, make } from "./parts.js";
import { count, duration, ms, percent, quantile, rate, when } from "./format.js";
import { follow } from "./feed.js";
import { Chart, redrawCharts } from "./charts.js";
import { linkTo } from "./link.js";
import { startTheme } from "./look.js";
import { startToken } from "./token.js";
import { showEvents } from "./events.js";
import { showMembers } from "./members.js";
import { showPools } from "./pools.js";
import { loadConfig, startConfig, editOverride } from "./config.js";

const KEPT_MS = 300000;

const traffic = new Chart($("traffic-chart"), $("traffic-legend"), [
  { name: "allowed", label: "Allowed", fill: true },
  { name: "refused", label: "Refused", fill: true },
  { name: "outage", label: "By on_outage", dash: [8, 4] },
  { name: "shadow", label: "Shadow", dash: [3, 3] },
], rate);
const latency = new Chart($("latency-chart"), $("latency-legend"), [
  { name: "allowed", label: "Median" },
  { name: "outage", label: "p99", dash: [8, 4] },
], (n) => (n === 0 || n >= 10 ? n.toFixed(0) : n.toFixed(2)));
const leases = new Chart($("lease-chart"), $("lease-legend"), [
  { name: "allowed", label: "Leases", fill: true },
  { name: "shadow", label: "Redis", dash: [8, 4] },
], rate);

let last = null; // the stats before
let seen = 0; // when the last came, by this clock
let reasons = []; // [at, {reason: refused since the stats before}] of the last five minutes
let config = -1;
let since = new Map(); // problem: since when, in words

/* ---- what two events differ by ---- */

// How much `now` grew a second over `before`; a restart begins at 0.
function growth(now, before, seconds) {
  return now >= before ? (now - before) / seconds : now / seconds;
}

const REASONS = [
  ["limited", "Over the limit"],
  ["queue_full", "Queue full"],
  ["wait_timeout", "Waited in vain"],
  ["banned", "Banned"],
  ["held", "Held (Retry-After)"],
  ["breaker_open", "Breaker open"],
];

function refusedBy(policy) {
  const other = ["queue_full", "wait_timeout", "banned", "held", "breaker_open"];
  const sum = other.reduce((n, name) => n + policy[name], 0);
  return { limited: Math.max(0, policy.refused - sum), ...Object.fromEntries(other.map((name) => [name, policy[name]])) };
}

const FIELDS = ["allowed", "refused", "outage", "shadow"];

function policyRates(stats, seconds) {
  const before = new Map(last.policies.map((policy) => [policy.policy, policy]));
  return stats.policies.map((policy) => {
    const old = before.get(policy.policy);
    const rates = {};
    for (const name of FIELDS) rates[name] = old ? growth(policy[name], old[name], seconds) : 0;
    return { ...policy, rates };
  });
}

/* ---- sections ---- */

const PARTS = {
  redis: ["Redis can't be reached", "Each policy's on_outage decides"],
  durability: ["Durable writes are not confirmed", "Policies that ask for them decide by on_outage"],
  kafka: ["Kafka can't be reached", "Usage is kept and sent later"],
  regions: ["Agents disagree about the regions", "Their configurations differ"],
  clock: ["Clocks differ", "Nothing is refilled while they do"],
};

function problemText(part) {
  if (PARTS[part]) return PARTS[part];
  if (part.startsWith("redis@")) return [`Redis of ${part.slice(6)} can't be reached`, "Keys at home there are decided by on_outage"];
  if (part.startsWith("share@")) return ["No grant for a global limit", "The region's floor is all there is"];
  return [part, ""];
}

function showStatus(stats) {
  const degraded = stats.health.degraded;
  const now = Date.now();
  const begun = last ? `since ${when(now)}` : `since before ${when(now)}, when this page was opened`;
  since = new Map(degraded.map((part) => [part, since.get(part) || begun]));
  const draining = stats.health.status === "draining";
  const state = draining || degraded.length > 0 ? "bad" : "good";
  $("status").dataset.state = state;
  document.title = state === "good" ? `Kova ${stats.node}` : `! Kova ${stats.node}`;
  if (draining) say($("status-title"), "The agent is ending");
  else if (degraded.length === 0) say($("status-title"), "All is well");
  else say($("status-title"), degraded.length === 1 ? problemText(degraded[0])[0] : `${degraded.length} things are wrong`);
  say($("status-why"), degraded.length === 0
    ? "Redis answers, clocks agree, every policy is decided as it says."
    : degraded.length === 1 ? `${problemText(degraded[0])[1]}, ${since.get(degraded[0])}.` : "");
  $("status-why").hidden = degraded.length > 1;
  $("problems").hidden = degraded.length < 2;
  list($("problems"), degraded.length < 2 ? [] : degraded, (part) => part, () => make("li"), (node, part) => {
    const [what, then] = problemText(part);
    say(node, `${what}: ${then}, ${since.get(part)}.`);
  });
  facts($("facts"), [
    ["Running for", duration(stats.at - stats.started)],
    ["Redis", `${stats.health.redis.up} of ${stats.health.redis.shards} ${stats.health.redis.shards === 1 ? "shard" : "shards"}`,
      stats.outages.redis ? "bad" : ""],
    ...(stats.outages.kafka === undefined ? [] : [["Kafka", stats.outages.kafka ? "away" : "connected", stats.outages.kafka ? "bad" : ""]]),
    ["Region", stats.region],
    ["Clients", count(stats.connections)],
    ["Looking on", String(stats.viewers)],
  ]);
  say($("node"), stats.node);
  say($("version"), stats.version);
}

function showTraffic(stats, policies, seconds) {
  const sum = { allowed: 0, refused: 0, outage: 0, shadow: 0 };
  let waiting = 0;
  for (const policy of policies) {
    for (const name of FIELDS) sum[name] += policy.rates[name];
    waiting += policy.waiting;
  }
  const all = sum.allowed + sum.refused + sum.outage + sum.shadow;
  say($("t-allowed"), rate(sum.allowed));
  say($("t-refused"), rate(sum.refused));
  say($("t-refused-part"), all > 0 ? `/s, ${percent(sum.refused / all)}` : "/s");
  say($("t-waiting"), count(waiting));
  traffic.add(stats.at, FIELDS.map((name) => sum[name]));
  $("traffic-empty").hidden = stats.policies.some((policy) => FIELDS.some((name) => policy[name] > 0));
  rows($("policies"), policies, (policy) => policy.policy, (policy) => [
    policy.policy,
    { num: rate(policy.rates.allowed) },
    { num: rate(policy.rates.refused), loud: policy.rates.refused > 0 },
    { mix: [policy.rates.allowed, policy.rates.refused] },
    { num: rate(policy.rates.outage), loud: policy.rates.outage > 0 },
    { num: rate(policy.rates.shadow) },
    { num: count(policy.waiting) },
    { num: count(policy.allowed) },
    { num: count(policy.refused) },
  ]);
  showLatency(stats);
  const decided = growth(stats.leases.decisions, last.leases.decisions, seconds);
  const asked = growth(stats.redis.operations, last.redis.operations, seconds);
  leases.add(stats.at, [decided, asked]);
  say($("lease-facts"), `${count(stats.leases.keys)} keys are busy enough for leases; ${count(stats.leases.granted)} leases so far. ` +
    `Redis: ${rate(growth(stats.redis.commands, last.redis.commands, seconds))} commands/s, ${count(stats.redis.timeouts)} time-outs.`);
}

function showLatency(stats) {
  const counts = stats.latency.bounds_ms.concat([0]).map((_, i) => ["http", "resp", "grpc"].reduce((sum, name) =>
    sum + Math.max(0, stats.latency[name][i] - last.latency[name][i]), 0));
  const p50 = quantile(stats.latency.bounds_ms, counts, 0.5);
  const p99 = quantile(stats.latency.bounds_ms, counts, 0.99);
  latency.add(stats.at, [p50, p99]);
  say($("t-p99"), ms(p99));
  say($("t-p50"), p50 === null ? "" : `median ${ms(p50)}`);
}

function showReasons(stats, policies) {
  const before = new Map(last.policies.map((policy) => [policy.policy, refusedBy(policy)]));
  const grown = {};
  for (const policy of policies) {
    const now = refusedBy(policy);
    const old = before.get(policy.policy);
    if (old) for (const [name] of REASONS) grown[name] = (grown[name] || 0) + Math.max(0, now[name] - old[name]);
  }
  reasons.push([stats.at, grown]);
  reasons = reasons.filter(([at]) => at > stats.at - KEPT_MS);
  const sums = REASONS.map(([name, text]) => ({ name, text, n: reasons.reduce((sum, [, one]) => sum + (one[name] || 0), 0) }))
    .filter((one) => one.n > 0).sort((a, b) => b.n - a.n);
  const all = sums.reduce((sum, one) => sum + one.n, 0);
  rows($("reasons"), sums, (one) => one.name, (one) => [one.text, { num: count(one.n) }, { part: one.n / all, series: "refused" }]);
}

function showSystem(stats) {
  rows($("clocks"), stats.clocks, (clock) => clock.peer, (clock) => [
    clock.peer,
    { num: `${clock.skew_ms > 0 ? "+" : ""}${clock.skew_ms.toFixed(1)} ms` },
    clock.differs ? { state: "bad", text: "differs" } : { state: "good", text: "agrees" },
  ]);
  $("quotas-card").hidden = stats.quotas.length === 0;
  rows($("quotas"), stats.quotas, (quota) => quota.policy, (quota) => [
    quota.policy, { num: percent(quota.share) }, { num: percent(quota.demand) }, { num: count(quota.granted) }, { num: count(quota.floor) },
    { num: count(quota.lent) }, { num: count(quota.clipped), loud: quota.clipped > 0 }, { num: quota.loose ? percent(quota.excess) : "none" },
  ]);
}

const topBefore = { refused: new Map(), asked: new Map() };

function showTop(top) {
  for (const [name, table] of [["refused", $("top-refused")], ["asked", $("top-hot")]]) {
    const before = topBefore[name];
    const now = new Map();
    const items = top[name].map((one) => {
      const id = `${one.policy}\n${one.key}`;
      const old = before.get(id);
      now.set(id, { n: one.count, at: top.at });
      return { ...one, id, now: old && one.count >= old.n ? ((one.count - old.n) * 1000) / Math.max(1, top.at - old.at) : 0 };
    });
    topBefore[name] = now;
    rows(table, items, (one) => one.id, (one) => [
      { code: one.key }, one.policy, { num: count(one.count) }, { num: rate(one.now) },
      { actions: [["Override", "override", `Override for ${one.key}`]] },
    ], (_, one) => editOverride({ policy: one.policy, key: one.key }));
  }
}

/* ---- the stream ---- */

function onStats(stats) {
  if (stats.config !== config) {
    config = stats.config;
    loadConfig();
  }
  if (!last || stats.started !== last.started) {
    last = last && stats.started === last.started ? last : stats;
    showStatus(stats);
    rows($("policies"), stats.policies, (policy) => policy.policy, (policy) => [policy.policy]);
  }
  const seconds = (stats.at - last.at) / 1000;
  if (seconds > 0) {
    const policies = policyRates(stats, seconds);
    showTraffic(stats, policies, seconds);
    showReasons(stats, policies);
  }
  showStatus(stats);
  showSystem(stats);
  last = stats;
  seen = Date.now();
}

const EVENTS = {
  stats: onStats, top: showTop, pools: (event) => showPools(event.pools), members: showMembers, events: showEvents,
};

/* ---- the token and the stream ---- */

const askToken = startToken("agent", () => {
  begin();
  loadConfig();
});
$("config-token").addEventListener("click", () => askToken());

startTheme(redrawCharts);
startConfig();
const begin = follow("v1/stream", {
  event: (name, data) => EVENTS[name] && EVENTS[name](data),
  state: linkTo("agent", () => seen, askToken),
});
