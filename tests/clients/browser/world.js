// The coordinator's dashboard as a user has it. Reads a job {url, pid, chromium, secret} from stdin, goes through the page, and prints
// what it found as JSON; before that the line `restart` each time that it wants the coordinator ended and started again.
import { readFileSync } from "node:fs";
import { accessibility, measure, openPage, phoneWidth, saying as sayingOn, silence } from "./page.js";

const job = JSON.parse(readFileSync(0, "utf8"));
const found = {};
const opened = await openPage(job.chromium, /ERR_(CONNECTION_REFUSED|CONNECTION_RESET|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)/);
const { page } = opened;
const saying = (selector, wanted) => sayingOn(page, selector, wanted);

// What a policy has admitted in all in a region, as the page has it.
const admitted = (policy, region) => page.evaluate(([of, where]) => {
  const row = [...document.querySelectorAll("#shares tbody tr")].find((one) => one.cells[0].textContent === of && one.cells[1].textContent === where);
  return row ? Number(row.cells[8].textContent.replaceAll(",", "")) : -1;
}, [policy, region]);

async function grows(policy, region, from) {
  await page.waitForFunction(([of, where, before]) => [...document.querySelectorAll("#shares tbody tr")].some((row) =>
    row.cells[0].textContent === of && row.cells[1].textContent === where && Number(row.cells[8].textContent.replaceAll(",", "")) > before),
  [policy, region, from]);
}

const answer = await page.goto(job.url);
found.policy = answer.headers()["content-security-policy"];
await saying("#link", "Live");
await saying("#status-title", "All is well");

// The world as it is, and as it goes on.
await grows("strict", "eu", 0);
await grows("strict", "us", 0);
await grows("own", "eu", await admitted("own", "eu"));
await saying("#region-cards h3", "eu");
await saying("#region-cards h3", "us");
await saying("#pool-numbers tbody tr", "exits");
await page.waitForFunction(() => document.querySelectorAll("#members tbody tr").length === 3);
await page.waitForFunction(() => Number(document.querySelector("#t-admitted").textContent) > 0);

// What was changed is told, and of whom it is is not.
await saying("#event-list tbody tr", "Configuration changed");
found.told = await page.locator("body").innerText().then((text) => text.includes(job.secret));

await page.reload();
await saying("#link", "Live");
Object.assign(found, await accessibility(page));

// A page that is open for long stays as it is.
await saying("#pool-numbers tbody tr", "exits");
await page.waitForTimeout(2000);
const before = await measure(opened);
await page.waitForTimeout(6000);
const after = await measure(opened);
const rows = await page.evaluate(() => document.querySelectorAll("#event-list tbody tr").length);
found.growth = { nodes: after.elements - before.elements, heap: after.heap - before.heap, events: rows };

found.width = await phoneWidth(page);
await silence(page, job.pid);

// Another process at the same place: it is told of, found again, and what comes again does not count twice.
const reached = await admitted("own", "eu");
console.log("restart");
await saying("#link", "Reconnecting");
await saying("#link", "Live");
await grows("own", "eu", reached);
console.log(JSON.stringify({ ...found, errors: opened.errors, bytes: opened.bytes() }));
await opened.browser.close();
