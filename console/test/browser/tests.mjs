// What a reader does and sees, each as one test: [name, options, body]. Tests that share the clipboard or measure time run alone. Elements are found by role and name.
import assert from 'node:assert/strict';
import { WINDOWED, button, editing, live, query, run, seen, status, textOf, until } from './steps.mjs';
import { editorTests } from './editor.mjs';
import { fieldsTests } from './fields.mjs';

export const tests = [
  ['Home shows live numbers, curves, events and questions', {}, async ({ open, mock }) => {
    const page = await open();
    const row = page.getByRole('row', { name: /flights/ });
    const first = await row.innerText();
    await until(page, () => row.innerText(), (now) => now !== first);
    assert.equal(await row.locator('canvas').evaluate((canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte !== 0)), true);
    await page.getByRole('list', { name: 'Newest events' }).getByRole('listitem').nth(5).waitFor();
    await seen(page, 'Events a second by carrier');
    // With the connection of the worker these are six.
    const before = mock.requests.slice(0, mock.requests.findIndex((request) => request.endsWith('/recent')) + 1).filter((request) => !request.endsWith('icon.svg'));
    assert.equal(before.length, 5, before.join(', '));
    assert.deepEqual(mock.asked, [], 'Home runs no query');
  }],
  ['one click on a question gives the first record', {}, async ({ open, mock }) => {
    const page = await open();
    await button(page, /Events a second by carrier/).click();
    await page.getByRole('group', { name: /^Chart: n by carrier/ }).waitFor();
    await live(page);
    assert.equal(mock.asked.length, 1);
    await button(page, 'Stop').click();
    await status(page).getByText('Ended: stopped').waitFor();
  }],
  ['a stream for the first event where there is none', { alone: true, set: { streams: [] } }, async ({ open, mock, check }) => {
    const page = await open();
    await page.getByRole('heading', { name: 'No stream has received an event yet' }).waitFor();
    await button(page, 'Copy for curl').click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^curl -fsS 'http.*v1\/streams\/clicks\/events'/);
    await check(page, 'no streams');
    mock.streams = ['clicks'];
    await page.getByRole('row', { name: /clicks/ }).waitFor();
  }],
  ['every form of chart', {}, async ({ open }) => {
    const page = await open('#/ask');
    await run(page, WINDOWED);
    const shows = { Lines: /^Chart: n by carrier/, Area: /^Chart: n by carrier/, Stacked: /^Chart: n by carrier/, Bars: /^Chart: n by carrier/, Top: /^Chart: n by carrier/, Histogram: /^Chart: Distribution/, Value: /^n: / };
    await live(page);
    for (const [form, name] of Object.entries(shows)) {
      await button(page, form).click();
      await page.getByRole('group', { name }).first().waitFor();
      const saved = page.waitForEvent('download');
      await button(page, 'Export').click();
      await button(page, 'Chart as PNG').click();
      const bytes = Buffer.concat(await (await (await saved).createReadStream()).toArray());
      assert.equal(bytes.subarray(1, 4).toString(), 'PNG', form);
    }
    await button(page, 'As table').click();
    await page.getByRole('region', { name: 'Latest n' }).waitFor();
    await button(page, 'Lines').click();
    await page.getByRole('region', { name: 'n by carrier' }).getByRole('columnheader', { name: 'UA' }).waitFor();
    await button(page, 'As table').click();
    const chart = page.getByRole('group', { name: /^Chart: n by carrier/ });
    await chart.locator('canvas').waitFor();
    await chart.press('ArrowLeft');
    await until(page, () => page.getByRole('status').innerText(), (text) => /\d\d:\d\d:\d\d\.\d\d\d: UA \d+/.test(text));
    await run(page, 'SELECT TOP(10, dest.faa) FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(250, TIME)');
    await page.getByRole('group', { name: /^Chart: Count by dest.faa/ }).locator('.whisker').first().waitFor();
    await seen(page, /each count is at most 6 too large/);
    await run(page, 'SELECT FREQ(dep_delay, LINEAR, 12) FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(250, TIME)');
    await page.getByRole('group', { name: /^Chart: Distribution by Range/ }).waitFor();
    await run(page, 'SELECT carrier, dest, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) GROUP BY carrier, dest WINDOWING TUMBLING(250, TIME)');
    await page.getByRole('group', { name: /^Heat map: n by carrier and dest/ }).press('ArrowDown');
    await run(page, 'SELECT COUNT(*) AS n, AVG(x) AS average FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(250, TIME)');
    await page.getByRole('group', { name: /^average: / }).waitFor();
    await run(page, 'SELECT carrier, COUNT(*) AS n FROM STREAM(flights, 300, TIME) GROUP BY carrier');
    await page.getByRole('group', { name: /^Chart: n by carrier/ }).waitFor();
    await status(page).getByText('Ended: its duration is over').waitFor();
  }],
  ['the table sorts, finds, hides, copies, and shows a whole value', { alone: true }, async ({ open }) => {
    const page = await open('#/ask');
    await run(page, 'SELECT carrier, COUNT(*) AS n FROM STREAM(flights, 300, TIME) GROUP BY carrier');
    await status(page).getByText(/Ended/).waitFor();
    await button(page, 'Table').click();
    const first = () => page.getByRole('grid').getByRole('row').nth(1).getByRole('gridcell').first().innerText();
    await until(page, first, (text) => text === 'UA');
    await page.getByRole('columnheader', { name: 'carrier' }).getByRole('button').click();
    await until(page, first, (text) => text === 'YV');
    await page.getByRole('columnheader', { name: 'carrier' }).getByRole('button').click();
    await until(page, first, (text) => text === '9E');
    await page.getByRole('heading', { name: 'Ask' }).evaluate(() => document.activeElement?.blur());
    await page.keyboard.press('/');
    await page.keyboard.type('dl');
    await until(page, first, (text) => text === 'DL');
    await page.getByRole('grid').focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'carrier' }).getByText('DL').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await until(page, () => page.getByRole('grid').evaluate((grid) => grid === document.activeElement), (focused) => focused);
    await page.keyboard.press('Control+c');
    await until(page, () => page.evaluate(() => navigator.clipboard.readText()), (text) => text === 'DL');
    await button(page, 'Copy').click();
    await button(page, 'Rows as TSV').click();
    await until(page, () => page.evaluate(() => navigator.clipboard.readText()), (text) => /^carrier\tn\nDL\t\d+\n$/.test(text));
    await button(page, 'Columns').click();
    await page.getByRole('checkbox', { name: 'n' }).uncheck();
    await seen(page, '1 column, 1 hidden');
    const saved = page.waitForEvent('download');
    await button(page, 'Export').click();
    await button(page, 'Rows as CSV').click();
    assert.equal((await saved).suggestedFilename(), 'result.csv');
    await button(page, 'JSON').click();
    await page.getByRole('region', { name: /^JSON of/ }).getByText('"carrier": "UA"').waitFor();
  }],
  ['pause, step, play, and back to live', {}, async ({ open }) => {
    const page = await open('#/ask');
    await run(page, WINDOWED);
    await live(page);
    const window = () => page.getByRole('slider', { name: 'Window' }).inputValue().then(Number);
    await until(page, window, (at) => at >= 4);
    await page.getByRole('heading', { name: 'Ask' }).evaluate(() => document.activeElement?.blur());
    await page.keyboard.press('Space');
    await status(page).getByText(/^Paused/).waitFor();
    const at = await window();
    await status(page).getByText(/windows behind/).waitFor();
    assert.equal(await window(), at);
    await button(page, 'Previous window').click();
    await until(page, window, (now) => now === at - 1);
    await button(page, 'Previous window').click();
    await button(page, 'Next window').click();
    await until(page, window, (now) => now === at - 1);
    await page.getByRole('slider', { name: 'Window' }).press('ArrowLeft');
    await until(page, window, (now) => now === at - 2);
    await button(page, 'Play windows').click();
    await until(page, window, (now) => now >= at);
    await button(page, 'Back to live').click();
    await live(page);
  }],
  ['after a cut the result goes on without gap or double', {}, async ({ open, mock }) => {
    const page = await open('#/ask');
    await run(page, 'SELECT COUNT(*) AS n FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(100, TIME)');
    await live(page);
    const last = () => page.getByRole('slider', { name: 'Window' }).getAttribute('max').then(Number);
    for (let cut = 0; cut < 3; cut += 1) {
      const before = await last();
      mock.dropSockets();
      await seen(page, /Stale since/);
      await until(page, last, (now) => now > before + 2);
      // Results that came before the cut may be drawn after it.
      await live(page);
    }
    assert.equal(mock.asked.length, 1);
    assert.equal(mock.attached.length, 3);
    assert.ok(mock.attached.every((frame) => typeof frame.after === 'number'));
    assert.equal(await page.getByText(/gap before/).count(), 0);
    await button(page, 'Stop').click();
    await status(page).getByText('Ended: stopped').waitFor();
    // Both count windows from 1: equal counts mean that none is missing and none came twice.
    const shown = Number(/^Window (\d+)/.exec(await page.getByText(/^Window \d/).innerText())[1]);
    const [made] = mock.windowsMade();
    assert.ok(shown === made || shown === made - 1, `${shown} of ${made} windows`);
    assert.equal(await last(), shown - 1);
  }],
  ['a server that forgot the query: asked again, the gap named', {}, async ({ open, mock }) => {
    const page = await open('#/ask');
    await run(page, WINDOWED);
    await live(page);
    await until(page, () => page.getByRole('slider', { name: 'Window' }).inputValue(), (at) => at >= 1);
    mock.forgetQueries();
    mock.dropSockets();
    await seen(page, /gap before .*: the server no longer knew the query/);
    await live(page);
    assert.equal(mock.asked.length, 2);
    await seen(page, /Results are missing before/);
  }],
  ['no WebSocket: plain HTTP, four results at most, and the page says so', { set: { refuseSockets: true } }, async ({ open }) => {
    const page = await open('#/ask');
    await page.getByText('No WebSocket reaches the server').waitFor();
    for (let i = 0; i < 4; i += 1) {
      if (i > 0) await button(page, 'New question').click();
      await run(page, `${WINDOWED} -- ${i}`);
      await live(page);
    }
    await button(page, 'New question').click();
    await run(page, `${WINDOWED} -- 5`);
    await seen(page, /4 queries run at the same time/);
    await page.getByRole('link', { name: 'Home' }).click();
    await page.getByRole('row', { name: /flights/ }).waitFor();
  }],
  ['a fault is shown with line, column and hint, before and after Run', {}, async ({ open }) => {
    const page = await open('#/ask');
    await page.getByRole('textbox', { name: 'Query' }).fill('SELECT *\nFRM STREAM(flights)');
    await seen(page, 'expected `,` or FROM, found `FRM`');
    await seen(page, /Did you mean FROM/);
    await editing(page);
    await button(page, 'Line 2, column 1').click();
    await until(page, () => page.evaluate(() => getSelection().toString()), (marked) => marked === 'FRM');
    await page.keyboard.press('Control+Enter');
    await status(page).getByText('Failed').waitFor();
    await page.getByRole('group', { name: 'Problem' }).getByText('Line 2, column 1').waitFor();
  }],
  ['a link runs nothing before a click', { alone: true, set: { from: 'cross-site' } }, async ({ open, mock }) => {
    const page = await open(`${query('SELECT * FROM STREAM(flights) WHERE a = $1')}&p=5&form=json`);
    await seen(page, 'This question came with a link on another site. Nothing has run.');
    assert.equal(await page.getByRole('textbox', { name: '$1' }).inputValue(), '5');
    await page.waitForTimeout(500);
    assert.deepEqual(mock.asked, []);
    await button(page, 'Run').click();
    await page.getByRole('region', { name: /^JSON of/ }).waitFor();
    assert.equal(mock.asked.length, 1);
    await page.evaluate((hash) => (location.hash = hash), query('SELECT 2 FROM STREAM(pasted)'));
    await seen(page, 'This question came with a link. Nothing has run.');
    assert.equal(mock.asked.length, 1);
    await button(page, 'Run').click();
    await button(page, 'Share').click();
    await button(page, 'Copy link').click();
    const link = await until(page, () => page.evaluate(() => navigator.clipboard.readText()), (text) => text.includes('#/ask?q='));
    assert.match(link, /zone=Europe%2FBerlin/);
  }],
  ['questions, answers and history are there after a reload', {}, async ({ open }) => {
    const page = await open('#/ask');
    await run(page, 'SELECT carrier, COUNT(*) AS n FROM STREAM(flights, 300, TIME) GROUP BY carrier');
    await status(page).getByText(/Ended/).waitFor();
    await button(page, 'New question').click();
    await page.getByRole('textbox', { name: 'Query' }).fill('SELECT typed only');
    await page.waitForTimeout(900);
    await page.reload();
    await page.getByRole('tab').nth(1).waitFor();
    await page.getByRole('tab', { name: /carrier/ }).click();
    await status(page).getByText('Ended: the answer of an earlier visit').waitFor();
    await page.getByRole('group', { name: /^Chart: n by carrier/ }).waitFor();
    await page.getByRole('tab', { name: /typed only/ }).click();
    assert.equal(await textOf(page), 'SELECT typed only');
    await button(page, 'History').click();
    await page.getByRole('dialog', { name: 'History' }).getByRole('button', { name: /carrier, COUNT/ }).waitFor();
  }],
  ['a running query is taken up after a reload, in this window alone', {}, async ({ open, mock, context }) => {
    const page = await open('#/ask');
    await run(page, WINDOWED);
    await live(page);
    const last = (of) => of.getByRole('slider', { name: 'Window' }).getAttribute('max').then(Number);
    await page.waitForTimeout(5800);
    await page.reload();
    await live(page);
    await until(page, () => last(page), (now) => now > 20);
    assert.equal(mock.asked.length, 1);
    assert.equal(mock.attached.length, 1);
    const other = await open('#/ask');
    await status(other).getByText('Ended: the answer of an earlier visit').waitFor();
    assert.equal(mock.attached.length, 1);
    assert.equal(context.pages().length, 2);
  }],
  ['without IndexedDB the page works and says that nothing is saved', {}, async ({ open }) => {
    const page = await open('#/ask', () => Object.defineProperty(window, 'indexedDB', { get: () => { throw new Error('no'); } }));
    await seen(page, 'This browser does not save anything for this page');
    await run(page, WINDOWED);
    await live(page);
  }],
  ['hostile events are text, and nothing else', {}, async ({ open }) => {
    const page = await open('#/ask');
    await run(page, 'SELECT * FROM STREAM(hostile, MAX, TIME)');
    await status(page).getByText(/Ended/).waitFor();
    const text = await page.getByRole('grid').innerText();
    for (const part of ['<img src=x onerror=alert(1)>', '\\u202eevil\\u202c', 'lone \\ud800 surrogate', '<script>', '9,007,199,254,740,993', '-12,345,678,901,234,567,890', '__proto__', 'line\\nbreak']) assert.ok(text.includes(part), part);
    assert.equal(await page.evaluate(() => 'hacked' in window || document.querySelector('#app img, #app script') !== null), false);
    await button(page, 'JSON').click();
    await page.getByRole('region', { name: /^JSON of/ }).getByText('9007199254740993').waitFor();
    await button(page, 'Table').click();
    const saved = page.waitForEvent('download');
    await button(page, 'Export').click();
    await button(page, 'Rows as CSV').click();
    const stream = await (await saved).createReadStream();
    const csv = Buffer.concat(await stream.toArray()).toString();
    assert.ok(csv.includes(`"'=cmd|calc"`) && csv.includes('-12345678901234567890'));
  }],
  ['2,000 columns, a value of 1 MiB, 10,000 groups, 10,000 rows a second: no frame over 100 ms', { alone: true }, async ({ open }) => {
    const page = await open('#/ask');
    for (const [text, form] of [['SELECT * FROM STREAM(wide, MAX, TIME)', 'Table'], ['SELECT * FROM STREAM(big, MAX, TIME)', 'Table'], ['SELECT key, COUNT(*) AS n FROM STREAM(groups, MAX, TIME) GROUP BY key', 'Lines'], ['SELECT * FROM STREAM(fast, MAX, TIME)', 'Table']]) {
      await run(page, text);
      await until(page, () => status(page).innerText().catch(() => ''), (line) => /held\s+[1-9]/.test(line));
      await page.waitForTimeout(300);
      const measure = () => page.evaluate(() => new Promise((resolve) => {
        // Only what the page itself does: a frame is late when a task of the main thread was long.
        let most = 0;
        const observer = new PerformanceObserver((list) => list.getEntries().forEach((entry) => (most = Math.max(most, entry.duration))));
        observer.observe({ type: 'longtask', buffered: false });
        setTimeout(() => (observer.disconnect(), resolve(most)), 1200);
      }));
      // Other programs make a task look long; a task that is long by itself is so each time.
      let longest = await measure();
      for (let again = 0; again < 3 && longest > 100; again += 1) longest = Math.min(longest, await measure());
      assert.ok(longest <= 100, `${text}: a task of ${longest} ms`);
      await button(page, form).click();
      if (text.includes('wide')) {
        await page.getByRole('grid').focus();
        await page.keyboard.press('End');
        await page.getByRole('columnheader', { name: 'column_1999' }).waitFor();
      }
      if (text.includes('big')) {
        await page.getByRole('grid').focus();
        await page.keyboard.press('ArrowRight');
        await page.keyboard.press('Enter');
        await page.getByRole('dialog', { name: 'value' }).getByText('1,048,576 characters').waitFor();
        await page.keyboard.press('Escape');
      }
      await button(page, 'Stop').click().catch(() => {});
    }
  }],
  ['behind a prefix, with a server of another build and a clock apart', { mock: { prefix: '/deep/live' }, set: { clockAheadMs: 5000 } }, async ({ open, mock }) => {
    const page = await open();
    await seen(page, /The server's clock is .* ahead/);
    mock.build = 'fedcba9876543210';
    mock.dropSockets();
    await seen(page, 'The server has another version of this page.');
    await button(page, 'Reload').click();
    await page.getByRole('row', { name: /flights/ }).waitFor();
  }],
  ['from another machine: compressed frames, and copying without HTTPS', { host: 'console.test' }, async ({ open, mock }) => {
    const page = await open('#/ask');
    await run(page, WINDOWED);
    await live(page);
    await until(page, () => page.getByRole('slider', { name: 'Window' }).inputValue(), (at) => Number(at) >= 2);
    assert.equal(mock.compressed, 1);
    assert.equal(await page.evaluate(() => isSecureContext), false);
    await button(page, 'Share').click();
    await button(page, 'Copy as curl').click();
    await seen(page, 'curl copied.');
    mock.dropSockets();
    await seen(page, /Stale since/);
    await live(page);
    assert.equal(mock.asked.length, 1);
  }],
  ['keys: palette, list of keys, switched off', {}, async ({ open }) => {
    const page = await open();
    await page.getByRole('row', { name: /flights/ }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Find pages, streams and questions' }).fill('page ask');
    await page.keyboard.press('Enter');
    await page.getByRole('textbox', { name: 'Query' }).waitFor();
    await page.getByRole('heading', { name: 'Ask' }).evaluate(() => document.activeElement?.blur());
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).getByRole('checkbox').uncheck();
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { name: 'Ask' }).evaluate(() => document.activeElement?.blur());
    await page.keyboard.press('?');
    await page.waitForTimeout(100);
    assert.equal(await page.getByRole('dialog').count(), 0);
    await button(page, 'View').click();
    await page.getByRole('radio', { name: 'Dark' }).check();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    await page.getByRole('radio', { name: 'UTC', exact: true }).check();
    await button(page, 'Another zone…').click();
    await page.getByRole('searchbox', { name: 'Find a time zone' }).fill('tokyo');
    await button(page, /Asia\/Tokyo/).click();
    await button(page, 'View').click();
    await button(page, 'Licences').click();
    await page.getByRole('region', { name: 'Licences' }).getByText(/uplot 1\.6/).waitFor();
  }],
  ...[['light', 1280], ['dark', 1280], ['light', 360], ['dark', 360]].map(([theme, width]) => [
    `accessible in ${theme} at ${width} px`, { theme, viewport: { width, height: 860 } }, async ({ open, check, pictures }) => {
      const page = await open();
      const picture = (name) => (pictures === null ? undefined : page.screenshot({ path: `${pictures}/${name}-${theme}-${width}.png`, fullPage: true }));
      const fits = async (state) => assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${state} is wider than the window`);
      const state = async (name) => {
        await picture(name);
        await fits(name);
        await check(page, `${name}, ${theme}, ${width}`);
      };
      await page.getByRole('list', { name: 'Newest events' }).getByRole('listitem').nth(5).waitFor();
      await page.getByText('Send events').click();
      await state('home');
      await page.keyboard.press('Control+k');
      await state('palette');
      await page.keyboard.press('Escape');
      await page.getByRole('link', { name: 'Ask' }).click();
      await state('ask');
      await run(page, 'SELECT a, b, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) GROUP BY a, b WINDOWING TUMBLING(250, TIME)');
      await page.getByRole('group', { name: /^Heat map/ }).waitFor();
      await state('heat');
      await run(page, WINDOWED);
      await live(page);
      await until(page, () => page.getByRole('slider', { name: 'Window' }).inputValue(), (at) => Number(at) >= 3);
      for (const form of ['Lines', 'Stacked', 'Bars', 'Table', 'JSON']) {
        await button(page, form).click();
        await page.waitForTimeout(150);
        await state(form.toLowerCase());
      }
      await run(page, 'SELECT COUNT(*) AS n, AVG(x) AS average FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(250, TIME)');
      await button(page, 'Value').click();
      await page.getByRole('group', { name: /^average: / }).waitFor();
      await state('value');
      await page.getByRole('textbox', { name: 'Query' }).fill('SELECT * FRM STREAM($1)');
      await seen(page, /expected `,` or FROM/);
      await run(page, 'SELECT * FRM STREAM($1)');
      await status(page).getByText('Failed').waitFor();
      await state('problem');
      await button(page, 'View').click();
      await state('view');
      await page.keyboard.press('Escape');
      await button(page, 'Keys').click();
      await state('keys');
    },
  ]),
  ...editorTests,
  ...fieldsTests,
];
