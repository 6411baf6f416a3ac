// What happened, of kova.events.v1 and of the agent's own: in a line each, as people say it.

import { $, rows } from "./parts.js";
import { duration, when } from "./format.js";

const NAMES = {
  outage_begun: ["bad", "Outage begun"], outage_ended: ["good", "Outage ended"],
  breaker_opened: ["warn", "Breaker opened"], breaker_closed: ["good", "Breaker closed"],
  clock_skew: ["warn", "Clocks differ"], config_changed: ["off", "Configuration changed"],
  member_joined: ["good", "Member joined"], member_lost: ["bad", "Member lost"], drift: ["warn", "Drift"],
  endpoint_cooled: ["warn", "Endpoint cooled"], endpoint_returned: ["good", "Endpoint returned"],
  endpoint_disabled: ["bad", "Endpoint disabled"], duplicate_endpoint: ["off", "Endpoint twice"],
  pool_paused: ["bad", "Pool paused"], pool_resumed: ["good", "Pool resumed"],
  target_held: ["warn", "Target held"], target_escalated: ["off", "Target escalated"], blame_capped: ["warn", "Blame capped"],
};

const PARTS = { redis: "Redis", kafka: "Kafka" };
const ACTIONS = { local: "decided in memory", deny: "denied", allow: "allowed" };

function partOf({ part, shard }) {
  const name = PARTS[part] || part.replace("redis@", "Redis of ");
  return part === "kafka" ? name : `${name}, shard ${shard}`;
}

function actions(counts) {
  const all = Object.entries(counts).map(([action, n]) => `${n} ${n === 1 ? "policy" : "policies"} ${ACTIONS[action]}`);
  return all.length > 0 ? `: ${all.join(", ")}` : "";
}

const target = (event) => (event.target ? ` for ${event.target}` : "");
const whose = (event) => `${event.endpoint} of ${event.pool}${target(event)}`;

const CHANGED = { override: "override of", weights: "weights of" };

const ABOUT = {
  outage_begun: (event) => `${partOf(event)}${actions(event.policy_action)}`,
  outage_ended: partOf,
  breaker_opened: (event) => event.policy,
  breaker_closed: (event) => event.policy,
  clock_skew: (event) => `${event.peer} is ${Math.abs(event.skew_ms)} ms ${event.skew_ms < 0 ? "behind" : "ahead"}`,
  config_changed: (event) => `${CHANGED[event.kind] || event.kind} ${event.name || ""}${event.who ? `, by ${event.who}` : ""}`,
  member_joined: (event) => event.member,
  member_lost: (event) => event.member,
  drift: (event) => `${event.policy} in ${event.region}: Kafka has ${event.kafka}, the ledger ${event.ledger}`,
  endpoint_cooled: (event) => `${whose(event)}, ${event.why}: for ${duration(event.ms)}`,
  endpoint_returned: whose,
  endpoint_disabled: (event) => `${whose(event)}: its provider does not know the key`,
  duplicate_endpoint: (event) => `${event.dropped} of ${event.pool} is ${event.endpoint}`,
  pool_paused: (event) => `${event.pool}: ${event.active} active, ${event.floor} are needed`,
  pool_resumed: (event) => event.pool,
  target_held: (event) => `${event.target || "all"} in ${event.pool}: for ${duration(event.ms)}`,
  target_escalated: (event) => `${event.target || "all"} in ${event.pool}: to tier ${event.tier}`,
  blame_capped: (event) => `${whose(event)}, ${event.why}: it stays, too many of its tier are out`,
};

const SAID = new Set(["event", "at", "node", "region", "hlc"]);

// Of an event that is not known here, all that it says.
function rest(event) {
  return Object.entries(event).filter(([name]) => !SAID.has(name))
    .map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
}

export const idOf = (event) => `${event.node} ${event.hlc} ${event.event}`;

// The newest first; a stamp begins with its time.
export const newestFirst = (events) => events.sort((a, b) => b.hlc - a.hlc);

export function showEvents(events) {
  rows($("event-list"), newestFirst(events), idOf, (event) => {
    const [state, text] = NAMES[event.event] || ["off", event.event.replaceAll("_", " ")];
    return [when(event.at), { state, text }, { prose: (ABOUT[event.event] || rest)(event) }, event.node, event.region || "–"];
  });
}
