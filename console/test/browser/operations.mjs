// The pages for operators: operations, search, cluster. Each test is [name, options, body].
import assert from 'node:assert/strict';
import { button, seen, until } from './steps.mjs';

const nav = (page, name) => page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true });
const region = (page, name) => page.getByRole('region', { name, exact: true });
const spoken = (page) => page.locator('.unseen[role="status"]');
const ALL = ['cluster', 'history', 'search', 'sql', 'views'];
const SEARCH = '#/search?stream=flights&q=timeout';

/** Nothing of an event has become markup or reordered the page. */
async function harmless(page) {
  assert.equal(await page.locator('img').count(), 0);
  assert.equal(/[\u202e\u0000]/.test(await page.locator('body').innerText()), false);
}

export const operationsTests = [
  ['operations: the dearest query ends three clicks after Home', {}, async ({ open, mock }) => {
    const page = await open();
    await page.getByRole('row', { name: /flights/ }).waitFor();
    let clicks = 0;
    const click = async (target) => {
      clicks += 1;
      await target.click();
    };
    await click(nav(page, 'Operations'));
    const first = region(page, 'Dearest queries').first().getByRole('button', { name: /^End query/ }).first();
    const dearest = /QA/.test(await first.innerText()) ? 'QA' : '';
    await click(first);
    await click(page.getByRole('dialog').getByRole('button', { name: 'End query' }));
    await seen(page, /End query QA: done/);
    assert.equal(dearest, 'QA');
    assert.deepEqual(mock.ended, ['QA']);
    assert.ok(clicks <= 3, `${clicks} clicks`);
    await page.getByRole('button', { name: 'End query QA' }).waitFor({ state: 'detached' });
  }],
  ['operations: metrics, curves, latency, memory, routes and settings', {}, async ({ open, mock }) => {
    const page = await open('#/operations');
    await page.getByRole('group', { name: /^Chart: Events a second/ }).waitFor();
    await until(page, () => region(page, 'Totals').innerText(), (text) => /Events a second\n\d/.test(text) && /Records dropped\n12/.test(text));
    // The history of 15 minutes, then readings.
    const chart = page.getByRole('group', { name: /^Chart: Events a second/ });
    await chart.press('End');
    await chart.press('ArrowLeft');
    await until(page, () => spoken(page).innerText(), (text) => /\d\d:\d\d:\d\d\.\d\d\d: events 7\d\d/.test(text));
    assert.match(await chart.getAttribute('aria-description'), /1 curves of events a second over (8|9)\d\d seconds/);
    await page.getByRole('button', { name: 'As table: Events a second' }).click();
    await page.getByRole('region', { name: /^Events a second, the newest 200/ }).waitFor();
    const shards = region(page, 'Shards').first();
    await shards.getByRole('row', { name: /^1 / }).getByRole('cell', { name: '20 %' }).waitFor();
    await shards.getByRole('row', { name: /^1 / }).getByRole('cell', { name: '55 %' }).waitFor();
    await page.getByRole('group', { name: /^Heat map: Batches by latency/ }).press('ArrowDown');
    await until(page, () => spoken(page).innerText(), (text) => /< .*: \d+/.test(text));
    assert.match(await region(page, 'Read-to-match latency').innerText(), /p50, last minute\s+< 2 ms/);
    await region(page, 'Memory').first().getByRole('row', { name: /Events that wait for a shard \(near its limit\)/ }).waitFor();
    await region(page, 'Queues').first().getByRole('row', { name: /Unfinished input .*57.2 MiB 64 MiB 89.4 %/ }).waitFor();
    await region(page, 'HTTP').first().getByRole('row', { name: /\/v1\/queries/ }).waitFor();
    await region(page, 'Tables of streams').first().getByRole('row', { name: /^host commit is retried/ }).waitFor();
    const settings = region(page, 'Settings').first();
    const rows = settings.getByRole('row');
    assert.match(await rows.nth(1).innerText(), /data\.dir[\s\S]*file/);
    assert.match(await rows.nth(3).innerText(), /search\.waiting_max[\s\S]*default/);
    await page.getByRole('searchbox', { name: 'Find a setting' }).fill('unfinished environment');
    await until(page, () => rows.count(), (count) => count === 2);
    await harmless(page);
    assert.equal(mock.requests.filter((one) => one === 'GET v1/settings').length, 1);
    assert.equal(mock.requests.filter((one) => one === 'GET v1/metrics/history').length, 1);
  }],
  ['operations: by keys alone: order of queries, End, Cancel, and back', {}, async ({ open, mock }) => {
    const page = await open('#/operations');
    const end = page.getByRole('button', { name: 'End query QB' });
    await end.waitFor();
    await button(page, 'Matches').focus();
    await page.keyboard.press('Enter');
    await until(page, () => mock.requests.filter((one) => one === 'GET v1/queries').length, (count) => count >= 2);
    await until(page, () => region(page, 'Dearest queries').nth(1).getByRole('row').nth(1).innerText(), (text) => text.includes('QH'));
    await end.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'End query QB' }).getByText('its unread results are lost').waitFor();
    await page.keyboard.press('Escape');
    assert.equal(await end.evaluate((element) => element === document.activeElement), true);
    assert.deepEqual(mock.ended, []);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByRole('button', { name: 'End query' }).focus();
    await page.keyboard.press('Enter');
    await until(page, () => mock.ended.join(), (ended) => ended === 'QB');
    await page.getByRole('row', { name: /SELECT level/ }).getByText('43 %').waitFor();
    await page.getByRole('button', { name: 'Cancel statement sql-1' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel statement' }).focus();
    await page.keyboard.press('Enter');
    await until(page, () => mock.ended.join(), (ended) => ended === 'QB,sql-1');
    await until(page, () => page.evaluate(() => document.activeElement?.getAttribute('aria-label')), (name) => name === 'Running SQL statements');
    await region(page, 'Dearest queries').first().getByRole('link', { name: 'flights' }).first().focus();
    await page.keyboard.press('Enter');
    await until(page, () => page.evaluate(() => location.hash), (hash) => hash === '#/streams/flights');
  }],
  ['operations: a server that is away and comes back, without history and settings', { set: { history: false, settings: false } }, async ({ open, mock }) => {
    const page = await open('#/operations');
    await page.getByRole('group', { name: /^Chart: Queries/ }).waitFor();
    assert.equal(await page.getByRole('heading', { name: 'Settings' }).count(), 0);
    mock.operationsAway = true;
    await seen(page, /^Stale since .*: the server is shutting down/);
    mock.operationsAway = false;
    await until(page, () => page.getByText(/^Stale since/).count(), (count) => count === 0);
    mock.operationsAway = true;
    const other = await open('#/operations');
    await seen(other, 'the server is shutting down Wait for its restart.');
    // Spoken once, however many parts of the page cannot be read.
    await other.getByRole('status').filter({ hasText: 'The data cannot be read now.' }).waitFor();
    mock.operationsAway = false;
    await other.getByRole('group', { name: /^Chart: Queries/ }).waitFor();
  }],
  ['operations: nothing is read while the page is hidden', {}, async ({ open, mock }) => {
    const page = await open('#/operations');
    await page.getByRole('group', { name: /^Chart: Queries/ }).waitFor();
    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await page.waitForTimeout(300);
    const before = mock.requests.length;
    await page.waitForTimeout(2500);
    assert.equal(mock.requests.length, before);
    await page.evaluate(() => {
      delete document.hidden;
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await until(page, () => mock.requests.slice(before).includes('GET metrics'), (read) => read);
  }],
  ['operations and cluster: nothing is offered that changes anything in read-only mode', { set: { mode: 'read_only', features: ALL } }, async ({ open }) => {
    const page = await open('#/operations');
    await page.getByRole('region', { name: 'Running SQL statements' }).getByRole('row', { name: /SELECT level/ }).waitFor();
    await page.getByRole('region', { name: 'Dearest queries' }).nth(1).getByRole('row', { name: /QB/ }).waitFor();
    for (const name of [/^End/, /^Cancel/]) assert.equal(await page.getByRole('button', { name }).count(), 0);
    await nav(page, 'Cluster').click();
    await page.getByRole('row', { name: /^a \(this one\)/ }).waitFor();
    assert.equal(await page.getByRole('button', { name: /Drain|Resume/ }).count(), 0);
  }],
  ['cluster: nodes, partitions, warnings, drain and resume', { set: { features: ALL } }, async ({ open, mock }) => {
    const page = await open('#/cluster');
    await page.getByRole('heading', { name: 'Cluster c' }).waitFor();
    await region(page, 'Warnings').getByText(/has no address/).waitFor();
    assert.match(await region(page, 'Partitions').getByRole('row').nth(1).innerText(), /flights[\s\S]*nobody/);
    await page.getByRole('searchbox', { name: 'Find partitions' }).fill('waiting');
    await until(page, () => region(page, 'Partitions').getByRole('row').count(), (count) => count === 2);
    await region(page, 'Queries of all nodes').first().getByText('CQ1').waitFor();
    await region(page, 'SQL on several machines').getByRole('row', { name: /http:\/\/10\.0\.0\.5:8081/ }).waitFor();
    await harmless(page);
    await button(page, 'Drain this node').focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Drain this node' }).getByText('POST v1/cluster/drain').waitFor();
    assert.deepEqual(mock.drains, []);
    await button(page, 'Drain node').click();
    await button(page, 'Resume this node').click();
    await button(page, 'Resume node').click();
    await button(page, 'Drain this node').waitFor();
    assert.deepEqual(mock.drains, ['POST', 'DELETE']);
  }],
  ['search: hits, marks, values, pages, time and one event', {}, async ({ open, mock, context }) => {
    const page = await open('#/search');
    await page.getByText('Choose streams and search.').waitFor();
    assert.deepEqual(mock.searches, []);
    await page.getByRole('checkbox', { name: 'flights' }).check();
    await page.getByRole('searchbox', { name: 'Words' }).fill('timeout');
    await page.keyboard.press('Enter');
    const hits = page.getByRole('list', { name: 'Hits' });
    await hits.getByRole('listitem').nth(49).waitFor();
    assert.equal(await hits.locator('mark').first().innerText(), 'timeout');
    await seen(page, /120 hits, newest first/);
    await button(page, 'Older').click();
    await seen(page, 'page 2');
    await until(page, () => mock.searches.at(-1), (call) => /cursor=1/.test(call) && !/histogram/.test(call));
    await button(page, 'Newer').click();
    await seen(page, 'page 1');
    await page.getByRole('group', { name: 'level' }).getByRole('button', { name: /^error/ }).click();
    await seen(page, /40 hits, newest first/);
    await until(page, () => mock.searches.some((call) => call.includes('drill=level%3Aerror') && call.includes('facet=level') && call.includes('sideways=true')), (counted) => counted);
    await harmless(page);
    const chart = page.getByRole('group', { name: /^Chart: Hits over time, intervals of 1 min/ });
    await chart.press('End');
    await until(page, () => spoken(page).innerText(), (text) => /55 hits$/.test(text));
    await chart.press('Enter');
    await until(page, () => page.evaluate(() => location.hash), (hash) => /from=20.*&to=20/.test(hash));
    await button(page, 'Remove level:error').click();
    await button(page, 'Remove level:error').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'As table: Hits over time, intervals of 1 min' }).click();
    await page.getByRole('region', { name: /^Hits over time/ }).getByRole('columnheader', { name: 'hits' }).waitFor();
    await hits.getByRole('button').first().focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Event 1000 of flights' });
    await dialog.getByText('__proto__').waitFor();
    const leaf = dialog.locator('.tree-null');
    assert.equal(await leaf.isVisible(), false);
    await dialog.locator('summary').filter({ hasText: 'a: ' }).press('Enter');
    await leaf.waitFor();
    await page.keyboard.press('Escape');
    // The same link in another window shows the same.
    const calls = mock.searches.length;
    const other = await open(await page.evaluate(() => location.hash));
    await other.getByRole('list', { name: 'Hits' }).getByRole('listitem').nth(49).waitFor();
    assert.ok(mock.searches.length > calls);
    assert.equal(await other.getByRole('searchbox', { name: 'Words' }).inputValue(), 'timeout');
    await page.goBack();
    await button(page, 'Remove level:error').waitFor();
    assert.equal(context.pages().length, 2);
  }],
  ['search: a link from another site waits for a click', { set: { from: 'cross-site' } }, async ({ open, mock }) => {
    const page = await open(`${SEARCH}&drill=level:error`);
    await seen(page, /came with a link from another site/);
    await page.waitForTimeout(300);
    assert.deepEqual(mock.searches, []);
    await button(page, 'Search').click();
    await page.getByRole('list', { name: 'Hits' }).waitFor();
    await page.goto(`${mock.url}#/search?activity=t1`);
    await button(page, 'Show activity').waitFor();
    await page.waitForTimeout(200);
    assert.equal(mock.searches.some((call) => call.includes('activity')), false);
  }],
  ['search: faults of the words at their place, no hits, a server away', {}, async ({ open, mock }) => {
    const page = await open('#/search?stream=flights');
    const words = page.getByRole('searchbox', { name: 'Words' });
    await page.getByRole('list', { name: 'Hits' }).waitFor();
    await words.fill('a😀 (b');
    await page.keyboard.press('Enter');
    const faults = page.getByRole('alert');
    await faults.getByText('`(` is not closed').waitFor();
    await faults.getByText('Write `)` at its end.').waitFor();
    assert.equal(await words.getAttribute('aria-invalid'), 'true');
    assert.deepEqual(await page.locator('.search-faults u').allInnerTexts(), ['(', 'b']);
    await button(page, 'Character 4').focus();
    await page.keyboard.press('Enter');
    assert.deepEqual(await words.evaluate((input) => [document.activeElement === input, input.selectionStart, input.selectionEnd]), [true, 4, 5]);
    await words.fill('nothing');
    await page.keyboard.press('Enter');
    await seen(page, /No event matches\. A longer time/);
    mock.operationsAway = true;
    await words.fill('timeout');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').filter({ hasText: 'the server is shutting down' }).waitFor();
    mock.operationsAway = false;
    await button(page, 'Try again').click();
    await page.getByRole('list', { name: 'Hits' }).waitFor();
  }],
  ['search: follows hits, goes on behind the last one, and rests while hidden', {}, async ({ open, mock }) => {
    const page = await open('#/search?stream=flights&q=nothing');
    await seen(page, /No event matches/);
    await button(page, 'Follow').click();
    const list = page.getByRole('list', { name: 'Hits as they come' });
    await list.getByRole('listitem').nth(7).waitFor();
    assert.equal(mock.followers, 1);
    const hide = (hidden) => page.evaluate((value) => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    await hide(true);
    await until(page, () => mock.followers, (followers) => followers === 0);
    await hide(false);
    await until(page, () => mock.followers, (followers) => followers === 1);
    assert.equal(mock.followedFrom.length, 2);
    assert.ok(Number(mock.followedFrom[1]) >= 5);
    const keys = async () => (await list.locator('.hit-head').allInnerTexts()).length;
    const count = await keys();
    await until(page, keys, (now) => now > count);
    await button(page, 'Stop following').click();
    await until(page, () => mock.followers, (followers) => followers === 0);
    await page.getByRole('heading', { name: 'Hits that came' }).waitFor();
    assert.ok((await keys()) > count);
    await button(page, 'Search').click();
    await seen(page, /No event matches\. A longer time/);
  }],
  ['search: the activity of an id over streams, by pointer and by keys', {}, async ({ open, mock }) => {
    const page = await open('#/search');
    await button(page, 'Activity of an id').click();
    await page.getByRole('searchbox', { name: 'Id' }).fill('t1');
    await page.getByRole('combobox', { name: 'Steps to other ids' }).selectOption('1');
    await page.keyboard.press('Tab');
    await button(page, 'Show activity').click();
    const chart = page.getByRole('group', { name: /^Chart: Events by stream/ });
    await chart.waitFor();
    assert.ok(mock.searches.at(-1).startsWith('v1/activity/t1?') && mock.searches.at(-1).includes('depth=1'));
    await chart.press('Home');
    await chart.press('ArrowRight');
    await until(page, () => spoken(page).innerText(), (text) => /purchases/.test(text));
    await chart.press('Enter');
    await page.getByRole('dialog', { name: /^Event 991 of purchases/ }).waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.lane-line').first().click({ position: { x: 2, y: 10 } });
    await page.getByRole('dialog', { name: /of calls/ }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: /^As table: Events by stream/ }).click();
    await page.getByRole('columnheader', { name: 'found by' }).waitFor();
    await harmless(page);
    await page.getByRole('button', { name: /^trace_id = t2/ }).click();
    await until(page, () => page.evaluate(() => location.hash), (hash) => hash.startsWith('#/search?activity=t2'));
    mock.noCorrelation = true;
    await button(page, 'Show activity').click();
    await page.getByText('CREATE SEARCH INDEX ON calls').waitFor();
  }],
  ...[['light', 1280], ['dark', 1280], ['light', 360], ['dark', 360]].map(([theme, width]) => [
    `operations, search and cluster are accessible in ${theme} at ${width} px`, { theme, viewport: { width, height: 860 }, set: { features: ALL } }, async ({ open, check, pictures }) => {
      const page = await open('#/operations');
      const state = async (name) => {
        if (pictures !== null) await page.screenshot({ path: `${pictures}/${name}-${theme}-${width}.png`, fullPage: true });
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than the window`);
        await check(page, `${name}, ${theme}, ${width}`);
      };
      await page.getByRole('group', { name: /^Heat map/ }).waitFor();
      await page.getByRole('button', { name: 'End query QB' }).waitFor();
      await state('operations');
      await page.getByRole('button', { name: 'End query QB' }).click();
      await state('end');
      await page.keyboard.press('Escape');
      await nav(page, 'Cluster').click();
      await page.getByRole('row', { name: /^a \(this one\)/ }).waitFor();
      await page.getByText('CQ1').waitFor();
      await state('cluster');
      await nav(page, 'Search').click();
      await page.getByRole('checkbox', { name: 'flights' }).check();
      await button(page, 'Search').click();
      await page.getByRole('group', { name: 'level' }).waitFor();
      await page.getByRole('group', { name: 'level' }).getByRole('button', { name: /^error/ }).click();
      await button(page, 'Remove level:error').waitFor();
      await page.getByRole('group', { name: 'level' }).waitFor();
      await state('search');
      await page.getByRole('list', { name: 'Hits' }).getByRole('button').first().click();
      await state('event');
      await page.keyboard.press('Escape');
      await page.getByRole('searchbox', { name: 'Words' }).fill('a (b');
      await button(page, 'Search').click();
      await page.getByRole('alert').waitFor();
      await state('faults');
      await button(page, 'Activity of an id').click();
      await page.getByRole('searchbox', { name: 'Id' }).fill('t1');
      await button(page, 'Show activity').click();
      await page.getByRole('group', { name: /^Chart: Events by stream/ }).waitFor();
      await state('activity');
    },
  ]),
];
