// Drives the page of a real server in Chromium: `node test/browser/server.mjs BINARY...`. Each binary runs its demo.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
if (!existsSync(executablePath)) {
  process.stdout.write(`skipped: no Chromium at ${executablePath}\n`);
  process.exit(0);
}
// How long anything may take on a slow machine that compiles beside it.
const PATIENCE_MS = 30_000;

/** Starts the demo of a binary; gives its address and a way to end it at once. */
async function demo(binary, listen) {
  const child = spawn(binary, ['demo', '--listen', listen], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  for await (const line of createInterface({ input: child.stdout })) {
    const found = /http:\/\/([\d.]+:\d+)/.exec(line);
    if (found !== null) {
      child.stdout.resume();
      return {
        authority: found[1],
        kill: async () => {
          child.kill('SIGKILL');
          await ended;
        },
      };
    }
  }
  throw new Error(`${binary} demo ended without an address`);
}

/** Runs statements on the server. */
async function sql(url, ...statements) {
  for (const statement of statements) {
    const answer = await fetch(`${url}v1/sql`, { method: 'POST', body: statement });
    assert.equal(answer.status, 200, `${statement}: ${await answer.text()}`);
  }
}

/** Tests of pages that show what is stored: a binary without history has none of it. */
const storedTests = [
  ['a stream shows its columns, its stored events and the answer to a test event', async ({ page, url }) => {
    await page.goto(`${url}#/streams/flights`);
    await page.getByRole('table', { name: 'Columns' }).getByText('carrier').first().waitFor();
    await page.getByRole('region', { name: 'Declaration' }).getByText(/CREATE STREAM flights/).waitFor();
    await page.getByRole('button', { name: 'Newest', exact: true }).click();
    await page.getByRole('table', { name: 'Stored events' }).getByRole('rowheader').first().waitFor();
    await page.goto(`${url}#/streams`);
    await page.getByRole('button', { name: 'Create a stream', exact: true }).click();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('clicks');
    await page.getByRole('button', { name: 'Create the stream', exact: true }).click();
    await page.getByRole('heading', { name: 'clicks', level: 1 }).waitFor();
    const area = page.getByRole('textbox', { name: /^Events:/ });
    await area.fill('{"page": "/cart"}');
    await area.press('Control+Enter');
    await page.getByText('1 accepted, 0 rejected.').first().waitFor();
    await page.getByRole('button', { name: 'Drop…', exact: true }).click();
    await page.getByRole('button', { name: 'Drop the stream', exact: true }).click();
    await page.getByRole('heading', { name: 'Streams', level: 1 }).waitFor();
  }],
  ['a view shows its rows, and its changes as they come', async ({ page, url }) => {
    await sql(url, 'CREATE MATERIALIZED VIEW carriers AS SELECT carrier, COUNT(*) AS n FROM STREAM(flights) GROUP BY carrier');
    await page.goto(`${url}#/views`);
    await page.getByRole('link', { name: 'carriers' }).click();
    await page.getByRole('table', { name: 'Rows of the view' }).getByText('UA').first().waitFor();
    await page.getByRole('table', { name: 'Changed keys' }).getByRole('row').nth(1).waitFor();
    await page.getByRole('button', { name: 'Drop…', exact: true }).click();
    await page.getByRole('button', { name: 'Drop the view', exact: true }).click();
    await page.getByRole('heading', { name: 'Views', level: 1 }).waitFor();
  }],
  ['jobs, alerts and sinks are listed, and a job is run at a click', async ({ page, url }) => {
    await sql(
      url,
      'CREATE MATERIALIZED VIEW delays AS SELECT carrier, COUNT(*) AS n FROM STREAM(flights) GROUP BY carrier',
      'CREATE STREAM alerts (carrier STRING, n LONG)',
      'CREATE ALERT busy ON delays WHEN n > 1000000 INTO alerts',
      'CREATE TABLE counts (n BIGINT)',
      "CREATE JOB counting SCHEDULE '@yearly' AS INSERT INTO counts SELECT count(*) FROM flights",
    );
    await page.goto(`${url}#/jobs`);
    await page.getByRole('table', { name: 'Alerts' }).getByText('busy').waitFor();
    await page.getByRole('table', { name: 'Jobs' }).getByText('counting').waitFor();
    await page.getByRole('button', { name: 'Run now: counting' }).click();
    await page.getByRole('button', { name: 'Run the job now', exact: true }).click();
    await page.getByRole('button', { name: 'Run the job now', exact: true }).waitFor({ state: 'detached' });
    await sql(url, 'DROP JOB counting', 'DROP TABLE counts', 'DROP ALERT busy', 'DROP STREAM alerts', 'DROP VIEW delays');
  }],
];

const tests = [
  ['Home shows streams, events and questions, and one click gives a live answer', async ({ page, url }) => {
    // Streams come over the socket; a page that cannot read them there asks for them again and again.
    let polls = 0;
    page.on('request', (request) => {
      if (/\/v1\/streams(\?|$)/.test(request.url())) polls += 1;
    });
    await page.goto(url);
    const row = page.getByRole('row', { name: /flights/ });
    await row.waitFor();
    for (let changes = 0, seen = await row.innerText(); changes < 3; changes += 1) {
      await page.waitForFunction((before) => [...document.querySelectorAll('tr, [role=row]')].some((one) => one.innerText.startsWith('flights') && one.innerText !== before), seen);
      seen = await row.innerText();
    }
    assert.ok(polls <= 1, `${polls} requests for streams beside the socket`);
    await page.getByRole('list', { name: 'Newest events' }).getByRole('listitem').first().waitFor();
    await page.getByRole('button', { name: /Events a second by / }).first().click();
    await page.getByRole('group', { name: /^Chart: / }).waitFor();
    await page.getByRole('group', { name: 'State of the result' }).getByText('Live', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await page.getByText('Ended: stopped', { exact: true }).waitFor();
  }],
  ['faults have their place, and plans are shown', async ({ page, url }) => {
    await page.goto(`${url}#/ask`);
    const editor = page.getByRole('textbox', { name: 'Query' });
    await editor.fill('SELECT carrier FRM STREAM(flights, MAX, TIME)');
    await page.getByText(/Line 1, column/i).first().waitFor();
    await editor.fill('EXPLAIN SELECT carrier FROM STREAM(flights, MAX, TIME)');
    await page.keyboard.press('Control+Enter');
    await page.getByText(/flights/).last().waitFor();
    await page.getByText(/^Ended/).first().waitFor();
  }],
  ['the editor completes streams, fields and values with what the server has', async ({ page, url }) => {
    await page.goto(url);
    await page.getByRole('list', { name: 'Newest events' }).getByRole('listitem').first().waitFor();
    await page.goto(`${url}#/ask`);
    // The editor takes the place of the plain text field.
    const editor = page.locator('.cm-content');
    await editor.click();
    const completed = async (typed, option) => {
      await page.keyboard.type(typed);
      await page.keyboard.press('Control+Space');
      await page.getByRole('option').filter({ hasText: option }).first().click();
      await page.getByRole('listbox').waitFor({ state: 'detached' });
    };
    await completed('SELECT carrier FROM STREAM(fli', 'flights');
    await completed(') WHERE carr', 'carrier');
    await completed(' = ', 'UA');
    const text = (await editor.innerText()).replace(/\s+/g, ' ').trim();
    assert.match(text, /^SELECT carrier FROM STREAM\(flights\) WHERE carrier = '\w\w'$/);
    await page.getByText(/^Valid: carrier/).first().waitFor();
  }],
  ['a link from another page runs nothing before a click', async ({ page, url }) => {
    const text = 'SELECT carrier FROM STREAM(flights, MAX, TIME)';
    await page.goto(`${url}#/ask?q=${encodeURIComponent(text)}`);
    await page.getByRole('textbox', { name: 'Query' }).waitFor();
    const queries = await (await fetch(`${url}v1/queries`)).json();
    assert.deepEqual(queries.queries, []);
  }],
  ['a server that was killed and started again: the query is asked again, and the gap is named', async ({ page, url, server }) => {
    await page.goto(`${url}#/ask`);
    await page.getByRole('textbox', { name: 'Query' }).fill('SELECT COUNT(*) AS n FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(250, TIME)');
    await page.keyboard.press('Control+Enter');
    const live = page.getByRole('group', { name: 'State of the result' }).getByText('Live', { exact: true });
    await live.waitFor();
    await server.restart();
    await page.getByText(/gap/i).first().waitFor();
    await live.waitFor();
  }],
];

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
let failed = 0;
for (const binary of process.argv.slice(2)) {
  let running = await demo(binary, '127.0.0.1:0');
  const { authority } = running;
  const server = {
    restart: async () => {
      await running.kill();
      running = await demo(binary, authority);
    },
  };
  const { features } = await (await fetch(`http://${authority}/v1/server`)).json();
  for (const [name, body] of features.includes('history') ? [...tests, ...storedTests] : tests) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, reducedMotion: 'reduce' });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const faults = [];
    const url = `http://${authority}/`;
    page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
    page.on('console', (message) => {
      if (/content security policy|refused to|trusted ?type/i.test(message.text())) faults.push(message.text());
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(url) && !/^(blob|data):/.test(request.url())) faults.push(`a request to ${request.url()}`);
    });
    try {
      await body({ page, url, server });
      assert.deepEqual(faults, []);
      process.stdout.write(`ok   ${name}\n`);
    } catch (error) {
      failed += 1;
      process.stdout.write(`FAIL ${name}\n${String(error.stack).slice(0, 3000)}\n${faults.join('\n')}\n`);
      if (process.env.PICTURES !== undefined) await page.screenshot({ path: `${process.env.PICTURES}/failed-${failed}.png` });
    }
    await context.close();
  }
  await running.kill();
}
await browser.close();
process.exit(failed === 0 ? 0 : 1);
