// Drives the built page in Chromium against the mock server. `node test/browser/run.mjs [part of a name] [--pictures DIR]`.
// A violation of the content security policy, an error in the page, or a request elsewhere fails the test in which it happens.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { startMock } from '../mock.mjs';
import { dashboardTests } from './dashboards.mjs';
import { dashboardEditTests } from './dashboards_edit.mjs';
import { keepTests } from './keep.mjs';
import { linkTests } from './links.mjs';
import { objectTests } from './objects.mjs';
import { operationsTests } from './operations.mjs';
import { savedTests } from './saved.mjs';
import { tests as pageTests } from './tests.mjs';

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
if (!existsSync(executablePath)) {
  process.stdout.write(`skipped: no Chromium at ${executablePath}\n`);
  process.exit(0);
}
const pictures = process.argv.includes('--pictures') ? process.argv[process.argv.indexOf('--pictures') + 1] : null;
const wanted = process.argv[2] !== undefined && !process.argv[2].startsWith('--') ? process.argv[2] : '';
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--host-resolver-rules=MAP console.test 127.0.0.1'] });
const began = Date.now();
let failed = 0;
let ran = 0;

async function attempt([name, options, body]) {
  const at = Date.now();
  const mock = await startMock(options.mock);
  Object.assign(mock, options.set);
  if (options.host !== undefined) mock.url = mock.url.replace('127.0.0.1', options.host);
  const context = await browser.newContext({ viewport: options.viewport ?? { width: 1280, height: 860 }, colorScheme: options.theme ?? 'light', reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'Europe/Berlin' });
  if (options.host === undefined) await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const faults = [];
  const watch = (page) => {
    page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
    page.on('console', (message) => {
      if (/content security policy|refused to|trusted ?type/i.test(message.text())) faults.push(message.text());
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(mock.url) && !/^(blob|data):/.test(request.url())) faults.push(`a request to ${request.url()}`);
    });
  };
  const tools = {
    mock,
    context,
    pictures,
    async open(fragment = '', init) {
      const page = await context.newPage();
      page.setDefaultTimeout(5000);
      watch(page);
      if (init !== undefined) await page.addInitScript(init);
      await page.goto(`${mock.url}${fragment}`);
      return page;
    },
    async check(page, state) {
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const { violations } = await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'] });
        return violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target.join(' ')} (${node.failureSummary?.split('\n')[1] ?? ''})`).join(' | ')}`);
      });
      assert.deepEqual(found, [], state);
    },
  };
  try {
    await body(tools);
    assert.deepEqual(faults, []);
    process.stdout.write(`ok   ${name} (${Date.now() - at} ms)\n`);
  } catch (error) {
    failed += 1;
    process.stdout.write(`FAIL ${name}\n${String(error.stack).slice(0, 3000)}\n${faults.join('\n')}\n`);
    if (pictures !== null) for (const page of context.pages()) await page.screenshot({ path: `${pictures}/failed.png` }).catch(() => {});
  }
  ran += 1;
  await context.close();
  await mock.close();
}

// Two at a time; what measures time or uses the clipboard runs alone.
const tests = [...pageTests, ...objectTests, ...operationsTests, ...savedTests, ...linkTests, ...keepTests, ...dashboardTests, ...dashboardEditTests];
const chosen = tests.filter(([name]) => name.includes(wanted));
const queue = chosen.filter(([, options]) => options.alone !== true);
const work = async () => {
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) await attempt(next);
};
await Promise.all([work(), work()]);
for (const test of chosen) if (test[1].alone === true) await attempt(test);
await browser.close();
process.stdout.write(`${ran - failed} of ${ran} passed in ${((Date.now() - began) / 1000).toFixed(1)} s\n`);
process.exit(failed === 0 ? 0 : 1);
