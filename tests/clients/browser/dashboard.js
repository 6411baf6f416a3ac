// The agent's dashboard as a user has it. Reads a job {url, token, key, pid, chromium} from stdin, goes through the page, and prints what
// it found as JSON; what can't be gone through is an error.
import { readFileSync } from "node:fs";
import { accessibility, measure, openPage, phoneWidth, saying as sayingOn, silence } from "./page.js";

const job = JSON.parse(readFileSync(0, "utf8"));
const found = {};
const headers = { "Content-Type": "application/json", Authorization: `Bearer ${job.token}` };
const opened = await openPage(job.chromium, /status of 40[01]/);
const { page } = opened;

const text = (selector) => page.locator(selector).first().innerText();
const saying = (selector, wanted) => sayingOn(page, selector, wanted);

async function take(n) {
  for (let i = 0; i < n; i++)
    await fetch(`${job.url}v1/take`, {
      method: "POST",
      headers,
      body: JSON.stringify({ policy: "p", key: job.key }),
    });
}

// Without a token, with a wrong one, with the right one.
const answer = await page.goto(job.url);
found.policy = answer.headers()["content-security-policy"];
await page.locator("#token-dialog[open]").waitFor();
await page.fill("#token-dialog input", "wrong");
await page.click("#token-dialog form button:not([type])");
await saying("#token-why", "not known");
await page.locator("#token-dialog[open]").waitFor();
await page.fill("#token-dialog input", job.token);
await page.click("#token-dialog form button:not([type])");
await saying("#link", "Live");
found.stored = await page.evaluate(() => [Object.values(sessionStorage), Object.values(localStorage)]);

// What happens is seen.
await take(30);
await saying("#top-refused tbody tr", job.key);
await page.waitForFunction(() => Number(document.querySelector("#policies tbody tr").cells[8].textContent) >= 20);
found.status = await text("#status-title");
found.reason = await text("#reasons tbody th");

// What is changed is in force. The key has a name like a tag.
await page.click("#override-new");
await page.selectOption("#override-dialog [name=policy]", "p");
await page.fill("#override-dialog [name=key]", job.key);
await page.fill("#override-dialog [name=limit]", "-1");
await page.fill("#override-dialog [name=limit]", "1000");
await page.fill("#override-dialog [name=per]", "never");
await page.click("#override-dialog form button:not([type])");
await saying("#override-dialog .wrong", "per");
await page.fill("#override-dialog [name=per]", "1s");
await page.click("#override-dialog form button:not([type])");
await saying("#overrides tbody tr", "1,000 per 1s");
await saying("#changes tbody tr", "override p");
await saying("#event-list tbody tr", "Configuration changed");
found.allowed = (await (await fetch(`${job.url}v1/peek`, {
  method: "POST", headers, body: JSON.stringify({ policy: "p", key: job.key }) })).json()).allowed;
await page.click("#pool-exits tbody tr:first-child button:has-text('Disable')");
await page.click("#sure-yes");
await saying("#pool-exits tbody tr:first-child .pill", "disabled");
await page.click("#pool-exits tbody tr:first-child button:has-text('Enable')");
await page.click("#sure-yes");
await saying("#pool-exits tbody tr:first-child .pill", "active");

await page.reload();
await saying("#link", "Live");
Object.assign(found, await accessibility(page));

// A page that is open for long stays as it is.
await page.waitForTimeout(4000);
const before = await measure(opened);
await take(20);
await page.waitForTimeout(8000);
const after = await measure(opened);
found.growth = { nodes: after.elements - before.elements, heap: after.heap - before.heap };

found.width = await phoneWidth(page);
await silence(page, job.pid);
found.markup = await page.evaluate(() => document.querySelectorAll("td img, th img, td b, th b").length);
console.log(JSON.stringify({ ...found, errors: opened.errors, bytes: opened.bytes() }));
await opened.browser.close();
