// The dashboard as a user has it. Reads a job {url, token, key, pid, chromium} from stdin, goes through the page, and prints what it
// found as JSON; what can't be gone through is an error.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const job = JSON.parse(readFileSync(0, "utf8"));
const found = { errors: [], bytes: 0 };
const headers = { "Content-Type": "application/json", Authorization: `Bearer ${job.token}` };
const browser = await chromium.launch({ executablePath: job.chromium, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, colorScheme: "light" });
const devtools = await page.context().newCDPSession(page);

page.setDefaultTimeout(60000);
page.on("pageerror", (error) => found.errors.push(String(error)));
page.on("console", (message) => {
  if (message.type() === "error" && !/status of 40[01]/.test(message.text())) found.errors.push(message.text());
});
const assets = new Set();
devtools.on("Network.responseReceived", (event) => {
  if (["Document", "Script", "Stylesheet", "Image"].includes(event.type)) assets.add(event.requestId);
});
devtools.on("Network.loadingFinished", (event) => {
  if (assets.has(event.requestId)) found.bytes += event.encodedDataLength;
});
await devtools.send("Network.enable");
await devtools.send("Performance.enable");

const text = (selector) => page.locator(selector).first().innerText();
const saying = (selector, wanted) => page.locator(selector, { hasText: wanted }).first().waitFor();

async function take(n) {
  for (let i = 0; i < n; i++)
    await fetch(`${job.url}v1/take`, {
      method: "POST",
      headers,
      body: JSON.stringify({ policy: "p", key: job.key }),
    });
}

async function measure() {
  await devtools.send("HeapProfiler.collectGarbage");
  const { metrics } = await devtools.send("Performance.getMetrics");
  const of = (name) => metrics.find((metric) => metric.name === name).value;
  return { nodes: await page.evaluate(() => document.querySelectorAll("*").length), heap: of("JSHeapUsedSize") };
}

/* Contrast of text and what is behind it (WCAG 2.1, 1.4.3), the least of what is seen. */
const contrast = () => page.evaluate(() => {
  const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  function behind(node) {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  }
  let least = { ratio: 21, what: "" };
  for (const node of document.querySelectorAll("h1, h2, h3, th, td, dt, dd, small, .pill, .muted, button, nav a, .tile b, .legend li")) {
    if (node.textContent.trim() === "" || node.getClientRects().length === 0) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least.ratio) least = { ratio, what: `${node.tagName}.${node.className} ${node.textContent.trim().slice(0, 40)}` };
  }
  return least;
});

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
found.allowed = (await (await fetch(`${job.url}v1/peek`, {
  method: "POST", headers, body: JSON.stringify({ policy: "p", key: job.key }) })).json()).allowed;
await page.click("#pool-exits tbody tr:first-child button:has-text('Disable')");
await page.click("#sure-yes");
await saying("#pool-exits tbody tr:first-child .pill", "disabled");
await page.click("#pool-exits tbody tr:first-child button:has-text('Enable')");
await page.click("#sure-yes");
await saying("#pool-exits tbody tr:first-child .pill", "active");

// By keyboard: the first stop is the link past the bar, and every stop is seen.
await page.reload();
await saying("#link", "Live");
await page.keyboard.press("Tab");
found.first_stop = await page.evaluate(() => [document.activeElement.className, document.activeElement.getBoundingClientRect().top >= 0]);
found.unnamed = await page.evaluate(() => [...document.querySelectorAll("button, a, input, select")]
  .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || (node.labels && node.labels.length))).map((node) => node.outerHTML));
found.heads = await page.evaluate(() => [...document.querySelectorAll("th")].filter((node) => !node.scope).length);
found.titles = await page.evaluate(() => document.querySelectorAll("h1").length);
found.contrast = [await contrast()];
await page.emulateMedia({ colorScheme: "dark" });
found.contrast.push(await contrast());

// A page that is open for long stays as it is.
await page.waitForTimeout(4000);
const before = await measure();
await take(20);
await page.waitForTimeout(8000);
const after = await measure();
found.growth = { nodes: after.nodes - before.nodes, heap: after.heap - before.heap };

// On a telephone nothing is beyond the edge.
await page.setViewportSize({ width: 390, height: 844 });
found.width = await page.evaluate(() => document.documentElement.scrollWidth);

// An agent that is silent is told of, and found again.
process.kill(job.pid, "SIGSTOP");
await saying("#link", "No data for 5 s");
process.kill(job.pid, "SIGCONT");
await saying("#link", "Live");
found.markup = await page.evaluate(() => document.querySelectorAll("td img, th img, td b, th b").length);
console.log(JSON.stringify(found));
await browser.close();
