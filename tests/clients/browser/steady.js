// Pages that are open for long. Reads a job {pages: {name: url}, paints, seconds, every, shots, chromium} from stdin; prints a line of JSON each time
// that it has looked, and at last what it found. `shots`: a directory for screenshots; null: none.
import { readFileSync } from "node:fs";
import { measure, openPage, paints, saying } from "./page.js";

const job = JSON.parse(readFileSync(0, "utf8"));

async function shoot(page, name) {
  for (const scheme of ["light", "dark"])
    for (const width of [1440, 390]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: width === 390 ? 844 : 900 });
      await page.waitForTimeout(1500);
      await page.screenshot({ path: `${job.shots}/${name}-${width}-${scheme}.png`, fullPage: true });
    }
}

// How often it has changed what it says of how long its program has been running, which it does with each event `stats`.
async function countUpdates(page) {
  await page.evaluate(() => {
    window.updates = 0;
    const node = [...document.querySelectorAll("#facts dt")].find((one) => one.textContent === "Running for").nextElementSibling;
    new MutationObserver(() => { window.updates++; }).observe(node, { childList: true, characterData: true, subtree: true });
  });
  return () => page.evaluate(() => window.updates);
}

async function watch([name, url], paint) {
  const opened = await openPage(job.chromium);
  const { page } = opened;
  const samples = [];
  await page.goto(url);
  await saying(page, "#link", "Live");
  await page.waitForTimeout(20000); // tables and charts are there
  const updates = await countUpdates(page);
  for (let at = 0; at <= job.seconds; at += job.every) {
    if (at > 0) await page.waitForTimeout(job.every * 1000);
    samples.push({ page: name, seconds: at, updates: await updates(), ...(await measure(opened)) });
    console.log(JSON.stringify(samples.at(-1)));
  }
  if (job.shots) await shoot(page, name);
  await opened.browser.close();
  return [name, { first_paints_ms: paint, bytes: opened.bytes(), errors: opened.errors, samples }];
}

// One after the other, with nothing else open.
const painted = [];
for (const url of Object.values(job.pages)) painted.push(await paints(job.chromium, url, job.paints));
const found = await Promise.all(Object.entries(job.pages).map((one, i) => watch(one, painted[i])));
console.log(JSON.stringify(Object.fromEntries(found)));
