// Pools: the five numbers of each, and each endpoint's state, with what an operator may do to it.

import { $, facts, list, make, rows, said, say } from "./parts.js";
import { count, duration, percent } from "./format.js";
import { call } from "./feed.js";
import { askSure } from "./config.js";

const PAUSED = {
  floor: "too few endpoints are active", cooling: "all endpoints are cooling", slots: "all slots are taken", held: "its target or keys are held",
  empty: "no endpoint is enabled", outage: "Redis can't be reached",
};

const STATES = { active: "good", cooldown: "warn", disabled: "off" };

function build(pool) {
  const id = `pool-${pool.pool}`;
  const table = make("table", { id },
    make("caption", { class: "out" }, `Endpoints of ${pool.pool}`),
    make("thead", {}, make("tr", {}, ...["Endpoint", "State", "Share", "", "In flight", "Failures", "Returns in", "Cooldowns", "Tier", "Weight", "Address"]
      .map((text, i) => make("th", { scope: "col", class: `${i >= 2 && i <= 9 ? "num" : ""}${[3, 4, 5, 6, 7, 8, 9, 10].includes(i) ? " lesser" : ""}` }, text)), make("th", { scope: "col" }, make("span", { class: "out" }, "Actions")))),
    make("tbody"));
  return make("article", { class: "card table-card pool" },
    make("h3", {}, pool.pool, " ", make("small"), " ", make("span", { class: "pill" })),
    make("dl", { class: "facts five" }), table);
}

function act(name, endpoint) {
  const path = `v1/pools/${encodeURIComponent(endpoint.pool)}/endpoints/${encodeURIComponent(endpoint.id)}`;
  const change = async (what, done) => {
    await call("PATCH", path, what);
    said(`${endpoint.id} ${done}.`);
  };
  if (name === "disable") {
    askSure(`Disable ${endpoint.id}?`, "It gets nothing new until it is enabled again. What is in flight ends as it would.", "Disable",
      () => change({ state: "disabled" }, "is disabled"));
  } else if (name === "enable") {
    askSure(`Enable ${endpoint.id}?`, "It takes part again at once.", "Enable", () => change({ state: "active" }, "is enabled"));
  } else if (name === "drain") {
    askSure(`Drain ${endpoint.id}?`, "Its weight becomes 0: nothing new, but sessions that it has keep it.", "Drain",
      () => change({ weight: 0 }, "drains"));
  } else {
    askSure(`Bring ${endpoint.id} back?`, "With which weight among the others?", "Bring back",
      (weight) => change({ weight }, "is back"), true);
  }
}

function actions(endpoint) {
  if (endpoint.state === "disabled") return [["Enable", "enable", `Enable ${endpoint.id}`]];
  return [
    endpoint.weight === 0 ? ["Bring back", "undrain", `Bring ${endpoint.id} back`] : ["Drain", "drain", `Drain ${endpoint.id}`],
    ["Disable", "disable", `Disable ${endpoint.id}`],
  ];
}

function update(node, pool) {
  const pill = node.querySelector("h3 .pill");
  const paused = pool.paused !== null && pool.paused !== undefined;
  if (pool.size !== undefined) pool.error = `${count(pool.size)} endpoints are too many to show here: kovactl pool show ${pool.pool}`;
  pill.dataset.state = pool.error || paused ? "bad" : "good";
  say(pill, pool.error ? pool.error : paused ? `paused: ${PAUSED[pool.paused] || pool.paused}` : "serving");
  if (pool.error) return;
  say(node.querySelector("h3 small"), `${pool.kind === "key" ? "API keys" : "proxies"}, ${pool.select}`);
  facts(node.querySelector("dl"), [
    ["Active", `${pool.active} of ${pool.endpoints.length}`, pool.active <= pool.floor ? "bad" : ""],
    ["Cooldowns", `${count(pool.numbers.cooldowns)}, for ${duration(pool.numbers.cooldown_ms)}`],
    ["Fewest active", count(pool.numbers.active_min)],
    ["Escalated", percent(pool.numbers.escalation)],
    ["Good after cooldown", pool.numbers.return_ok === null ? "–" : percent(pool.numbers.return_ok)],
  ]);
  rows(node.querySelector("table"), pool.endpoints.map((one) => ({ ...one, pool: pool.pool })), (one) => one.id, (one) => {
    const share = pool.numbers.share[one.id] || 0;
    return [
      one.id, { state: one.state === "active" && one.weight === 0 ? "off" : STATES[one.state], text: one.state === "active" && one.weight === 0 ? "draining" : one.state },
      { num: percent(share) }, { part: share, series: "allowed" }, { num: count(one.in_flight) },
      { num: `${one.window.failures} of ${one.window.outcomes}`, loud: one.window.failures > 0 },
      { num: one.returns_in_ms > 0 ? duration(one.returns_in_ms) : "–" }, { num: count(one.cooldowns) }, { num: String(one.tier) },
      { num: String(one.weight) }, one.host || "–", { actions: actions(one) },
    ];
  }, act);
}

export function showPools(pools) {
  $("pools-empty").hidden = pools.length > 0;
  list($("pool-list"), pools, (pool) => pool.pool, build, update);
}
