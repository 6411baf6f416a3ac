// The nodes that gossip knows.

import { $, rows } from "./parts.js";

const STATES = { alive: "good", suspect: "warn", dead: "bad" };

export function showMembers({ members }) {
  rows($("members"), members, (member) => `${member.node} ${member.role}`, (member) => [
    member.node, member.region || "–", member.role,
    { state: STATES[member.state], text: member.state },
    member.address, { num: `${member.skew_ms > 0 ? "+" : ""}${member.skew_ms} ms` },
  ]);
}
