// Policies, overrides and their history, and what an administrator may change.

import { $, dialog, make, rows, said, say } from "./parts.js";
import { count, when } from "./format.js";
import { call } from "./feed.js";

const CHANGES_SHOWN = 30;

function limitText(rule) {
  if (rule.banned) return "banned";
  if (rule.unlimited) return "no limit";
  if (rule.plan) return `${rule.plan.slots} slots, ${rule.plan.hold} each`;
  if (rule.levels) return rule.levels.map((level) => `${level.name} ${limitText(level)}`).join(" · ");
  if (rule.limit === undefined) return rule.weight === undefined ? "–" : `weight ${rule.weight}`;
  const per = rule.per ? ` per ${rule.per}` : rule.hold ? " at once" : "";
  return `${count(rule.limit)}${per}${rule.burst ? `, burst ${count(rule.burst)}` : ""}`;
}

const whose = (item) => (item.prefix !== undefined ? `${item.prefix}…` : item.key);

/* ---- what is there ---- */

function showPolicies(policies) {
  rows($("rules"), policies, (policy) => policy.name, (policy) => [
    policy.name + (policy.shadow ? " (shadow)" : ""), policy.plan ? "plan" : policy.algorithm || "token-bucket", limitText(policy),
    policy.scope === "global" ? `global, ${policy.global || "strict"}` : policy.scope || "region", policy.on_outage || (policy.global === "strict" ? "deny" : "local"), policy.who || "–",
  ]);
  const select = $("override-dialog").querySelector("[name=policy]");
  const names = policies.map((policy) => policy.name);
  if ([...select.options].map((option) => option.value).join() !== names.join())
    select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
}

function showOverrides(overrides) {
  rows($("overrides"), overrides, (one) => `${one.policy}\n${one.prefix !== undefined}\n${whose(one)}`, (one) => [
    one.policy, { code: whose(one) }, limitText(one), one.until ? when(one.until) : "further notice", one.who || "–",
    { actions: [["Edit", "edit", `Edit the override of ${whose(one)}`], ["Remove", "remove", `Remove the override of ${whose(one)}`]] },
  ], (name, one) => (name === "edit" ? editOverride(one) : removeOverride(one)));
}

const brief = (value) => {
  if (value === null || value === undefined) return "–";
  const { version, who, policy, name, key, prefix, ...rest } = value;
  return JSON.stringify(rest);
};

function showChanges(changes) {
  rows($("changes"), changes, (one) => `${one.version} ${one.kind} ${one.name} ${one.key || one.prefix || ""}`, (one) => [
    when(one.at), one.who || "–", `${one.kind} ${one.name}${one.key !== undefined || one.prefix !== undefined ? ` ${whose(one)}` : ""}`,
    { code: brief(one.before) }, { code: brief(one.after) },
  ]);
}

let loading = null;

// Asks for all of it anew. What is asked for meanwhile is asked for once, later.
export async function loadConfig() {
  if (loading) {
    loading.again = true;
    return;
  }
  const mine = { again: false };
  loading = mine;
  try {
    const [policies, overrides, changes] = await Promise.all([
      call("GET", "v1/policies"), call("GET", "v1/overrides"), call("GET", `v1/changes?limit=${CHANGES_SHOWN}`)]);
    $("config-locked").hidden = true;
    $("config-open").hidden = false;
    showPolicies(policies.policies);
    showOverrides(overrides.overrides);
    showChanges(changes.changes);
  } catch (error) {
    if (error.status === 401 || error.status === 403) {
      $("config-locked").hidden = false;
      $("config-open").hidden = true;
    }
  }
  loading = null;
  if (mine.again) loadConfig();
}

/* ---- what may be done ---- */

let overrideDialog = null;
let sure = null;
let sureDialog = null;

function showKind(form) {
  form.querySelector("[data-for=limit]").hidden = form.elements.kind.value !== "limit";
}

async function putOverride(fields) {
  const body = { policy: fields.policy.value, [fields.of.value]: fields.key.value };
  if (fields.kind.value === "limit") {
    if (fields.limit.value === "") throw new Error("A limit is needed: a whole number from 0 to 1000000000.");
    body.limit = Number(fields.limit.value);
    if (fields.per.value.trim() !== "") body.per = fields.per.value.trim();
    if (fields.burst.value !== "") body.burst = Number(fields.burst.value);
  } else {
    body[fields.kind.value] = true;
  }
  if (fields.until.value !== "") body.until = new Date(Date.now() + Number(fields.until.value) * 1000).toISOString();
  await call("PUT", "v1/overrides", body);
  said(`The override of ${fields.key.value} is in force.`);
  loadConfig();
}

export function editOverride(one) {
  const { form } = overrideDialog;
  const fields = form.elements;
  form.reset();
  if (one.policy) fields.policy.value = one.policy;
  fields.of.value = one.prefix !== undefined ? "prefix" : "key";
  fields.key.value = one.prefix !== undefined ? one.prefix : one.key || "";
  fields.kind.value = one.banned ? "banned" : one.unlimited ? "unlimited" : "limit";
  if (one.limit !== undefined) fields.limit.value = one.limit;
  if (one.per !== undefined) fields.per.value = one.per;
  if (one.burst !== undefined) fields.burst.value = one.burst;
  say($("override-title"), one.who ? "Edit override" : "New override");
  showKind(form);
  overrideDialog.open();
}

function removeOverride(one) {
  const of = one.prefix !== undefined ? "prefix" : "key";
  askSure(`Remove the override of ${whose(one)}?`, `It has the limit of ${one.policy} again.`, "Remove", async () => {
    await call("DELETE", `v1/overrides?policy=${encodeURIComponent(one.policy)}&${of}=${encodeURIComponent(one[of])}`);
    said("The override is gone.");
    loadConfig();
  });
}

// Asks before `then(weight)` is done; with a weight, if one is asked for.
export function askSure(title, text, yes, then, asksWeight = false) {
  sure = then;
  say($("sure-title"), title);
  say($("sure-text"), text);
  say($("sure-yes"), yes);
  $("sure-weight").hidden = !asksWeight;
  sureDialog.open();
}

export function startConfig() {
  overrideDialog = dialog("override-dialog", putOverride);
  sureDialog = dialog("sure-dialog", (fields) => sure(Number(fields.weight.value)));
  overrideDialog.form.elements.kind.addEventListener("change", () => showKind(overrideDialog.form));
  $("override-new").addEventListener("click", () => editOverride({}));
}
