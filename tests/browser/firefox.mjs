/**
 * The main pages in Firefox, as a person goes through them: `node firefox.mjs FIREFOX URL FILE`. Prints what it saw and
 * every complaint of the console as one JSON document; test_firefox.py says what that must be.
 */
import puppeteer from "puppeteer-core";

const WAIT_MS = 120_000;
const [, , executablePath, url, file] = process.argv;
const complaints = [];
const seen = {};

const browser = await puppeteer.launch({
  browser: "firefox",
  executablePath,
  headless: true,
  protocolTimeout: WAIT_MS,
  defaultViewport: { width: 1440, height: 900 },
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) complaints.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`exception: ${error.message}`));
  const text = (selector) => page.$eval(selector, (one) => one.textContent.trim());
  const count = (selector) => page.$$eval(selector, (all) => all.length);
  const points = () =>
    page.waitForFunction(() => document.querySelectorAll("#roofline .scatterlayer .points path").length > 4);

  await page.goto(url);
  await page.waitForSelector("#step-time .causes li");
  await points();
  await page.waitForSelector("#timeline .scatterlayer path");
  seen.sides = [await text("#ab .side-a"), await text("#ab .side-b")];
  seen.causes = await count("#step-time .causes li");
  seen.before = await text("#tile-step-time");

  // a slider, by its keys: the plan that is left stays as A
  await page.waitForFunction(() => Number(document.querySelector('[data-field="plan.tp"] input[type=range]').max) > 0);
  await page.focus('[data-field="plan.tp"] input[type=range]');
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(
    (before) => document.querySelector("#tile-step-time").textContent.trim() !== before,
    {},
    seen.before,
  );
  await page.waitForFunction(() => new URLSearchParams(location.search).get("tp") === "2");
  seen.after = await text("#tile-step-time");

  // a file of a person's own
  const input = await page.$("input[type=file][multiple]");
  await input.uploadFile(file);
  await page.waitForFunction(() => /table/i.test(document.querySelector("main, dialog[open]")?.textContent ?? ""));
  seen.uploaded = await page
    .waitForFunction(async () => {
      const { measurements } = await (await fetch("/api/measurements")).json();
      return measurements.filter(({ upload_id }) => upload_id).length;
    })
    .then((found) => found.jsonValue());
  // the page goes to what was imported by itself
  await page.waitForFunction(() => new URLSearchParams(location.search).get("view") === "measurements");

  seen.pages = {};
  for (const name of ["search", "runs", "measurements", "studies"]) {
    await page.click(`nav [data-view="${name}"]`);
    await page.waitForSelector(`#${name}:not([hidden]) h1`);
    await page.waitForSelector(name === "runs" ? "#runs form" : `#${name} .plot .main-svg`);
    seen.pages[name] = await text(`#${name} h1`);
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify({ complaints, seen }));
