// The coordinator's dashboard: the world as the topics tell it. What came before comes again after a pause, so nothing counts twice.

import { $, facts, list, make, rows, say } from "./parts.js";
import { count, duration, percent, rate, when } from "./format.js";
import { follow } from "./feed.js";
import { Chart, redrawCharts } from "./charts.js";
import { linkTo } from "./link.js";
import { startToken } from "./token.js";
import { startTheme } from "./look.js";
import { idOf, newestFirst, showEvents } from "./events.js";
import { showMembers } from "./members.js";

const EVENTS_KEPT = 100;
const CHART_S = 300;

const traffic = new Chart($("traffic-chart"), $("traffic-legend"), [
  { name: "allowed", label: "Admitted", fill: true },
  { name: "refused", label: "Refused", fill: true },
  { name: "shadow", label: "Waited", dash: [3, 3] },
], rate);
const work = new Chart($("work-chart"), $("work-legend"), [
  { name: "allowed", label: "Usage", fill: true },
  { name: "shadow", label: "Reports", dash: [8, 4] },
], rate);

const policies = new Map(); // name: its last row
const pools = new Map(); // pool and region: its last numbers
const used = new Map(); // second: what all policies used in it, of the chart's time
const changed = new Set(); // seconds that are not drawn as they are
let newest = { to: 0, length: 0 }; // row, in ms
let happened = []; // events, the newest first
let last = null;
let seen = 0;
let since = 0;

const FIELDS = ["admitted", "refused", "waited"];

const seconds = (row) => Math.max(0.001, (Date.parse(row.to) - Date.parse(row.from)) / 1000);

/* ---- rows of kova.rollup.v1 ---- */

function addRows(all) {
  for (const row of all) {
    const known = policies.get(row.policy);
    if (known && Date.parse(known.to) >= Date.parse(row.to)) continue;
    policies.set(row.policy, row);
    spread(row);
  }
  drawSeconds();
  showPolicies();
  showShares();
}

// What a row says goes in equal parts to the time that it is of.
function spread(row) {
  const from = Date.parse(row.from);
  const to = Date.parse(row.to);
  const length = Math.max(1, to - from);
  for (let at = Math.floor(Math.max(from / 1000, to / 1000 - CHART_S)); at * 1000 < to; at++) {
    const part = (Math.min(to, (at + 1) * 1000) - Math.max(from, at * 1000)) / length;
    const sums = used.get(at) || FIELDS.map(() => 0);
    FIELDS.forEach((name, i) => {
      sums[i] += row[name] * part;
    });
    used.set(at, sums);
    changed.add(at);
  }
  if (to >= newest.to) newest = { to, length };
}

// A second is whole when the rows of the interval after it have begun to come: those of one interval may come in two parts.
function drawSeconds() {
  const whole = Math.floor((newest.to - newest.length) / 1000) - 1;
  for (const at of [...changed].filter((one) => one <= whole).sort((a, b) => a - b)) {
    traffic.add(at * 1000, used.get(at));
    changed.delete(at);
  }
  for (const at of used.keys()) if (at < whole - CHART_S) used.delete(at);
  if (!used.has(whole)) return;
  const [admitted, refused, waited] = used.get(whole);
  say($("t-admitted"), rate(admitted));
  say($("t-refused"), rate(refused));
  say($("t-refused-part"), admitted + refused > 0 ? `/s, ${percent(refused / (admitted + refused))}` : "/s");
  say($("t-waited"), rate(waited));
}

function byName(map) {
  return [...map.keys()].sort().map((name) => map.get(name));
}

function showPolicies() {
  const all = byName(policies);
  const regions = new Set(all.flatMap((row) => Object.keys(row.regions)));
  $("traffic-empty").hidden = all.length > 0;
  say($("t-regions"), String(regions.size));
  say($("t-policies"), `${all.length} ${all.length === 1 ? "policy" : "policies"}`);
  rows($("policies"), all, (row) => row.policy, (row) => [
    row.policy,
    row.limit === undefined ? "not known here" : `${count(row.limit)} per ${row.per}`,
    { num: rate(row.admitted / seconds(row)) },
    { num: rate(row.refused / seconds(row)), loud: row.refused > 0 },
    { mix: [row.admitted, row.refused] },
    { num: rate(row.waited / seconds(row)) },
    { num: String(Object.keys(row.regions).length) },
    when(row.to),
  ]);
  showRegions(all, [...regions].sort());
}

function showRegions(all, names) {
  const sums = names.map((name) => {
    const sum = { name, admitted: 0, refused: 0, all: 0 };
    for (const row of all) {
      const here = row.regions[name];
      if (here) sum.admitted += here.admitted / seconds(row);
      if (here) sum.refused += here.refused / seconds(row);
      sum.all += row.admitted / seconds(row);
    }
    return sum;
  });
  list($("region-cards"), sums, (sum) => sum.name, (sum) => make("div", { class: "card region" }, make("h3", {}, sum.name),
    make("span", { class: "mix", "aria-hidden": "true" }, make("i"), make("i")), make("dl", { class: "facts" })), (node, sum) => {
    const both = sum.admitted + sum.refused;
    const [, mix, terms] = node.children;
    mix.firstChild.style.width = both > 0 ? `${(sum.admitted / both) * 100}%` : "0";
    mix.lastChild.style.width = both > 0 ? `${(sum.refused / both) * 100}%` : "0";
    facts(terms, [
      ["Admitted/s", rate(sum.admitted)],
      ["Refused/s", rate(sum.refused), sum.refused > 0 ? "bad" : ""],
      ["Of all admitted", percent(sum.all > 0 ? sum.admitted / sum.all : 0)],
    ]);
  });
}

function showShares() {
  const all = byName(policies).flatMap((row) => Object.keys(row.regions).sort().map((region) => ({ row, region, of: row.regions[region] })));
  const part = (n) => (n === undefined ? "–" : count(n));
  rows($("shares"), all, (one) => `${one.row.policy} ${one.region}`, ({ row, region, of }) => [
    row.policy, region,
    { num: rate(of.admitted / seconds(row)) },
    { num: rate(of.refused / seconds(row)), loud: of.refused > 0 },
    { part: row.admitted > 0 ? of.admitted / row.admitted : 0, series: "" },
    { num: part(of.share) }, { num: part(of.grant) }, { num: part(of.floor) },
    { num: count(of.admitted_total) },
  ]);
}

/* ---- pools and events ---- */

function addPools(all) {
  for (const one of all) if (one.event === "pool_numbers") pools.set(`${one.pool} ${one.region}`, one);
  rows($("pool-numbers"), byName(pools), (one) => `${one.pool} ${one.region}`, (one) => [
    one.pool, one.region || "–",
    { num: percent(Math.max(0, ...Object.values(one.share))) },
    { num: count(one.cooldowns), loud: one.cooldowns > 0 },
    { num: duration(one.cooldown_ms) },
    { num: count(one.active_min), loud: one.active_min === 0 },
    { num: percent(one.escalation) },
    { num: one.return_ok === null ? "–" : percent(one.return_ok) },
  ]);
}

function addEvents(all) {
  const known = new Map(happened.map((event) => [idOf(event), event]));
  for (const event of all) known.set(idOf(event), event);
  happened = newestFirst([...known.values()]).slice(0, EVENTS_KEPT);
  showEvents(happened);
}

/* ---- the coordinator ---- */

const PARTS = {
  kafka: ["Kafka can't be reached", "nothing is granted: each region falls to its floor when its grants end"],
  take_over: ["Partitions are being taken over", "grants of their keys wait until then"],
};

function problemText(part) {
  if (PARTS[part]) return PARTS[part];
  if (part.startsWith("redis@")) return [`Redis of ${part.slice(6)} can't be reached`, "its ledgers are not compared"];
  return [part, ""];
}

function showStatus(stats) {
  const { status, degraded } = stats.health;
  const state = status === "ready" && degraded.length === 0 ? "good" : "bad";
  if ($("status").dataset.state !== state) since = stats.at;
  $("status").dataset.state = state;
  document.title = state === "good" ? `Kova world, ${stats.node}` : `! Kova world, ${stats.node}`;
  const many = degraded.length > 1;
  if (status === "draining") say($("status-title"), "The coordinator is ending");
  else if (degraded.length === 0) say($("status-title"), "All is well");
  else say($("status-title"), many ? `${degraded.length} things are wrong` : problemText(degraded[0])[0]);
  say($("status-why"), degraded.length === 0
    ? "Usage is read, shares are granted, what it knows is committed."
    : `Since ${when(since)}: ${problemText(degraded[0])[1]}.`);
  $("status-why").hidden = many;
  $("problems").hidden = !many;
  list($("problems"), many ? degraded : [], (part) => part, () => make("li"), (node, part) => say(node, problemText(part).join(": ")));
  facts($("facts"), [
    ["Running for", duration(stats.at - stats.started)],
    ["Partitions here", count(stats.partitions)],
    ["Keys in use", count(stats.keys)],
    ["Quotas shared out", count(stats.quotas)],
    ["Rows each", duration(stats.rollup_ms)],
    ["Looking on", String(stats.viewers)],
  ]);
  facts($("own"), [
    ["Grants", count(stats.grants)],
    ["Transactions", count(stats.transactions)],
    ["Begun again", count(stats.failures), stats.failures > 0 ? "bad" : ""],
    ["Floors that differ", count(stats.floors_differ), stats.floors_differ > 0 ? "bad" : ""],
    ["Last take-over", duration(stats.take_over_ms)],
    ["Events dropped", count(stats.events_dropped), stats.events_dropped > 0 ? "bad" : ""],
  ]);
  say($("node"), `world, by ${stats.node}`);
  say($("version"), stats.version);
}

function onStats(stats) {
  if (last && stats.started === last.started && stats.at > last.at) {
    const passed = (stats.at - last.at) / 1000;
    work.add(stats.at, [(stats.records - last.records) / passed, (stats.reports - last.reports) / passed]);
  }
  showStatus(stats);
  last = stats;
  seen = Date.now();
}

/* ---- the stream ---- */

const EVENTS = { stats: onStats, rows: addRows, pools: addPools, events: addEvents, members: showMembers };

startTheme(redrawCharts);
const askToken = startToken("coordinator", () => begin());
const begin = follow("v1/stream", {
  event: (name, data) => EVENTS[name] && EVENTS[name](data),
  state: linkTo("coordinator", () => seen, askToken),
});
