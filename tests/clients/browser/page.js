// A page in a real browser, and what is asked of it: what it says, costs and weighs.
import { chromium } from "playwright-core";

/*
 * Resolves to {browser, page, errors, bytes(), devtools}: `errors` gets what the console says of errors, but for lines that `expected`
 * (a RegExp) matches; bytes() is what the page itself took on the wire, without its stream and its calls.
 */
export async function openPage(executablePath, expected) {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, colorScheme: "light" });
  const devtools = await page.context().newCDPSession(page);
  const errors = [];
  const assets = new Set();
  let bytes = 0;

  page.setDefaultTimeout(60000);
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !(expected && expected.test(message.text()))) errors.push(message.text());
  });
  devtools.on("Network.responseReceived", (event) => {
    if (["Document", "Script", "Stylesheet", "Image"].includes(event.type)) assets.add(event.requestId);
  });
  devtools.on("Network.loadingFinished", (event) => {
    if (assets.has(event.requestId)) bytes += event.encodedDataLength;
  });
  await devtools.send("Network.enable");
  await devtools.send("Performance.enable");
  return { browser, page, devtools, errors, bytes: () => bytes };
}

// Until the first that `selector` finds says `wanted`.
export const saying = (page, selector, wanted) => page.locator(selector, { hasText: wanted }).first().waitFor();

// What a page that is open for long must not add to: after a forced collection of garbage.
export async function measure({ page, devtools }) {
  await devtools.send("HeapProfiler.collectGarbage");
  const { metrics } = await devtools.send("Performance.getMetrics");
  const of = (name) => metrics.find((metric) => metric.name === name).value;
  return {
    elements: await page.evaluate(() => document.querySelectorAll("*").length),
    nodes: of("Nodes"),
    listeners: of("JSEventListeners"),
    heap: of("JSHeapUsedSize"),
  };
}

/*
 * When something was first painted, ms since the navigation began, each of `n` times that the page is opened: nothing of it is in a cache.
 * Before them the browser has opened it once, so that its own start is not measured.
 */
export async function paints(executablePath, url, n) {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const times = [];

  for (let i = 0; i <= n; i++) {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    await page.goto(url);
    await saying(page, "#link", "Live");
    times.push(await page.evaluate(() =>
      performance.getEntriesByType("paint").find((one) => one.name === "first-contentful-paint").startTime));
    await context.close();
  }
  await browser.close();
  return times.slice(1);
}

/* Contrast of text and what is behind it (WCAG 2.1, 1.4.3), the least of what is seen. */
const contrast = (page) => page.evaluate(() => {
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

/*
 * What everybody who reads it needs, after a reload of a page that is live: by keyboard the first stop is the link past the bar, and
 * every stop is seen; all has a name; both colour schemes can be read.
 */
export async function accessibility(page) {
  const found = {};

  await page.keyboard.press("Tab");
  found.first_stop = await page.evaluate(() => [document.activeElement.className, document.activeElement.getBoundingClientRect().top >= 0]);
  found.unnamed = await page.evaluate(() => [...document.querySelectorAll("button, a, input, select")]
    .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || (node.labels && node.labels.length))).map((node) => node.outerHTML));
  found.heads = await page.evaluate(() => [...document.querySelectorAll("th")].filter((node) => !node.scope).length);
  found.titles = await page.evaluate(() => document.querySelectorAll("h1").length);
  found.contrast = [await contrast(page)];
  await page.emulateMedia({ colorScheme: "dark" });
  found.contrast.push(await contrast(page));
  return found;
}

// On a telephone nothing is beyond the edge.
export async function phoneWidth(page) {
  await page.setViewportSize({ width: 390, height: 844 });
  return page.evaluate(() => document.documentElement.scrollWidth);
}

// One who is silent is told of, and found again.
export async function silence(page, pid) {
  process.kill(pid, "SIGSTOP");
  await saying(page, "#link", "No data for 5 s");
  process.kill(pid, "SIGCONT");
  await saying(page, "#link", "Live");
}
