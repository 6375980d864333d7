// The pages of streams, views and jobs, each as one test: [name, options, body].
import assert from 'node:assert/strict';

const button = (page, name, exact = true) => page.getByRole('button', { name, exact });
const nav = (page, name) => page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true });

const seen = (page, text) => page.getByText(text).first().waitFor();

/** Polls until `read` gives a value that `good` accepts. */
async function until(page, read, good) {
  const end = Date.now() + 5000;
  for (;;) {
    const value = await read();
    if (good(value)) return value;
    if (Date.now() > end) assert.fail('not reached');
    await page.waitForTimeout(25);
  }
}

export const objectTests = [
  ['pages: each is offered, opens by pointer and by Ctrl-K, and goes back', {}, async ({ open, check }) => {
    const page = await open();
    for (const name of ['Streams', 'Views', 'Jobs & alerts', 'Operations', 'Search']) {
      await nav(page, name).click();
      await page.getByRole('heading', { name, level: 1, exact: true }).waitFor();
      assert.equal(await page.title(), `${name} · Swiftwater`);
      assert.equal(await nav(page, name).getAttribute('aria-current'), 'page');
    }
    assert.equal(await nav(page, 'Cluster').count(), 0);
    await page.goBack();
    await page.getByRole('heading', { name: 'Operations', level: 1 }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill('page views');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Views', level: 1 }).waitFor();
    await check(page, 'views');
  }],
  ['pages: a server without data offers streams and operations only', { set: { features: [] }, viewport: { width: 360, height: 740 } }, async ({ open }) => {
    const page = await open('#/views/v');
    await page.getByText('This server does not have this page').waitFor();
    const names = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allInnerTexts();
    assert.deepEqual(names, ['Home', 'Ask', 'Streams', 'Operations']);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  }],
  ['pages: without WebSocket the server is asked what it has', { set: { refuseSockets: true } }, async ({ open }) => {
    const page = await open('#/views/pages');
    await page.getByRole('table', { name: 'Rows of the view' }).waitFor();
    await nav(page, 'Jobs & alerts').waitFor();
    assert.equal(await page.title(), 'pages · Views · Swiftwater');
  }],
  ['pages: their file that cannot be loaded is tried again', {}, async ({ open, context }) => {
    await context.route('**/pages.js', (route) => route.abort());
    const page = await open('#/streams');
    await page.getByText('This page cannot be loaded now').waitFor();
    await button(page, 'Try again').click();
    await page.getByRole('heading', { name: 'Streams', level: 1 }).waitFor();
    await button(page, 'Try again').waitFor({ state: 'detached' });
  }],
  ['streams: ten thousand by prefix, order and page, by pointer and by keys', { set: {} }, async ({ open, mock }) => {
    mock.objects.streams = Array.from({ length: 10_000 }, (_, i) => `s${String(i).padStart(4, '0')}`);
    const page = await open('#/streams');
    const rows = page.getByRole('table', { name: 'Streams' }).getByRole('row');
    await rows.nth(100).waitFor();
    assert.equal(await rows.count(), 101);
    await button(page, 'Show more').click();
    await rows.nth(200).waitFor();
    const sort = page.getByRole('columnheader', { name: 'Stream' }).getByRole('button');
    await sort.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('columnheader', { name: 'Stream' }).and(page.locator('[aria-sort="ascending"]')).waitFor();
    await button(page, 'Next page').press('Enter');
    await page.getByRole('link', { name: 's0100' }).waitFor();
    await button(page, 'Previous page').click();
    await page.getByRole('link', { name: 's0000' }).waitFor();
    await page.getByRole('textbox', { name: 'Name begins with' }).fill('s999');
    await page.getByRole('link', { name: 's9995' }).waitFor();
    await until(page, () => rows.count(), (n) => n === 11);
    await page.getByRole('textbox', { name: 'Name begins with' }).fill('nothing');
    await page.getByText('No stream has such a name.').waitFor();
  }],
  ['a stream: figures, queries, columns, paths, stored and bad events, partitions', {}, async ({ open, mock, check }) => {
    const page = await open('#/streams/flights');
    await page.getByRole('heading', { name: 'flights', level: 1 }).waitFor();
    await seen(page, '1,000,000');
    await page.getByRole('table', { name: 'Columns' }).getByText('<img src=x onerror=alert(1)>\\u202eevil').waitFor();
    await page.getByRole('region', { name: 'Declaration' }).getByText('carrier STRING NOT NULL').waitFor();
    await page.getByRole('table', { name: 'Paths of the newest events' }).getByText('dest.faa').waitFor();
    await page.getByRole('table', { name: 'Bad events with their reasons' }).getByText('expected STRING').waitFor();
    await page.getByRole('table', { name: 'Positions' }).getByText('reading').waitFor();
    await page.getByRole('list', { name: 'Newest events' }).getByRole('listitem').first().waitFor();
    assert.equal(mock.objects.reads.filter((text) => /_offset DESC|_offset >=/.test(text) && !/quarantine/.test(text)).length, 0, 'no stored event is read by itself');
    const stored = page.getByRole('table', { name: 'Stored events' });
    await button(page, 'Newest').press('Enter');
    await stored.getByRole('rowheader', { name: '119' }).waitFor();
    await button(page, 'Earlier events').click();
    await stored.getByRole('rowheader', { name: '20', exact: true }).waitFor();
    await page.getByRole('textbox', { name: 'Offset' }).fill('0');
    await page.keyboard.press('Enter');
    await stored.getByText('\\u202eevil').waitFor();
    await page.getByRole('textbox', { name: 'Arrival from' }).fill('yesterday');
    await page.keyboard.press('Enter');
    await seen(page, 'Write a time such as');
    await page.getByRole('textbox', { name: 'Arrival from' }).fill('2026-11-30 00:01:00');
    await page.keyboard.press('Enter');
    await stored.getByRole('rowheader', { name: '60', exact: true }).waitFor();
    await button(page, 'Pause reading…').click();
    await page.getByRole('dialog').getByText('ALTER STREAM flights PAUSE').waitFor();
    await page.keyboard.press('Escape');
    await button(page, 'End query Q1').click();
    await page.getByRole('dialog').getByText('SELECT * FROM STREAM(flights)').waitFor();
    assert.deepEqual(mock.objects.ended, []);
    await check(page, 'end a query');
    await button(page, 'End this query').click();
    await seen(page, 'No query runs over this stream.');
    assert.deepEqual(mock.objects.ended, ['Q1']);
    assert.equal(await page.evaluate(() => document.querySelector('main img')), null);
  }],
  ['a stream: a test event shows its faults at their place', {}, async ({ open, mock }) => {
    const page = await open('#/streams/flights');
    const area = page.getByRole('textbox', { name: /^Events:/ });
    await area.fill('{"good": 1,\n "x": 2, "bad": "text"}');
    await area.press('Control+Enter');
    await seen(page, '0 accepted, 1 rejected.');
    await button(page, 'Line 2, column 10').click();
    assert.deepEqual(await area.evaluate((element) => [element === document.activeElement, element.selectionStart]), [true, 21]);
    await area.fill('{"good": 1}');
    await button(page, 'Send').click();
    await seen(page, '1 accepted, 0 rejected.');
    assert.equal(mock.objects.sent.length, 2);
  }],
  ['streams: create, alter and drop show their statement first', {}, async ({ open, mock, check }) => {
    const page = await open('#/streams');
    await button(page, 'Create a stream').click();
    const statement = page.getByRole('region', { name: 'Statement' });
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('clicks');
    await button(page, 'Add a column').click();
    await page.getByRole('textbox', { name: 'Column' }).fill('order');
    await page.getByRole('combobox', { name: 'Type' }).selectOption('LONG');
    await statement.getByText('CREATE STREAM clicks ( "order" LONG ) WITH (store = true)').waitFor();
    await check(page, 'create a stream');
    assert.deepEqual(mock.objects.changes, []);
    await button(page, 'Create the stream').click();
    await page.getByRole('heading', { name: 'clicks', level: 1 }).waitFor();
    assert.deepEqual(mock.objects.changes, ['CREATE STREAM clicks (\n  "order" LONG\n) WITH (store = true)']);
    await page.goto(`${mock.url}#/streams/flights`);
    await page.getByRole('combobox', { name: 'Change' }).selectOption('set an option');
    await page.getByRole('textbox', { name: 'Value' }).fill('1 week');
    await statement.getByText("ALTER STREAM flights SET (retention = '1 week')").waitFor();
    await page.getByRole('textbox', { name: 'Value' }).press('Enter');
    await until(page, () => mock.objects.changes.length, (n) => n === 2);
    await button(page, 'Drop…').click();
    const dialog = page.getByRole('dialog', { name: 'Drop the stream flights' });
    await dialog.getByText('view pages').waitFor();
    await dialog.getByText('DROP STREAM flights').waitFor();
    await check(page, 'drop a stream');
    assert.equal(mock.objects.changes.length, 2);
    await button(dialog, 'Drop the stream').click();
    await dialog.getByText('view `pages` reads stream `flights`').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  }],
  ['a view: rows by key, prefix and page, and its changes with marked cells', {}, async ({ open, mock, check }) => {
    const page = await open('#/views');
    await seen(page, 'failing: the disk is full');
    const link = page.getByRole('link', { name: 'pages' });
    await link.focus();
    await page.keyboard.press('Enter');
    const heading = page.getByRole('heading', { name: 'pages', level: 1 });
    await heading.waitFor();
    await until(page, () => heading.evaluate((element) => element === document.activeElement), (focused) => focused);
    const rows = page.getByRole('table', { name: 'Rows of the view' });
    await rows.getByText('/home').waitFor();
    await button(page, 'Next page').click();
    await rows.getByText('9,007,199,254,740,993').waitFor();
    await page.getByRole('textbox', { name: 'First values of the key' }).fill('["/home"]');
    await until(page, () => rows.getByRole('row').count(), (n) => n === 2);
    await page.getByRole('textbox', { name: /^Key, values/ }).fill('none');
    await page.keyboard.press('Enter');
    await seen(page, 'The view has no row of this key.');
    await page.getByRole('textbox', { name: /^Key, values/ }).fill('["a b/c"]');
    await page.keyboard.press('Enter');
    await rows.getByText('9,007,199,254,740,993').waitFor();
    await button(page, 'Show all rows').click();
    await rows.getByText('/home').waitFor();
    const feed = await until(page, () => [...mock.objects.feeds][0], (found) => found !== undefined);
    feed.write({ key: ['/cart'], row: { page: '/cart', n: 1 }, position: 501 });
    feed.write({ key: ['/cart'], row: { page: '/cart', n: 2 }, position: 502 });
    feed.write({ key: ['/home'], row: null, position: 503 });
    const changes = page.getByRole('table', { name: 'Changed keys' });
    await changes.getByText('2, changed').waitFor();
    await changes.getByText('deleted').first().waitFor();
    await check(page, 'a view');
    feed.end();
    const next = await until(page, () => [...mock.objects.feeds][0], (found) => found !== undefined && found !== feed);
    assert.equal(next.from, '503');
    await button(page, 'Pause changes').click();
    await until(page, () => mock.objects.feeds.size, (n) => n === 0);
    await button(page, 'Resume changes').click();
    await until(page, () => mock.objects.feeds.size, (n) => n === 1);
    assert.notEqual([...mock.objects.feeds][0].from, null);
    await button(page, 'Pause changes').click();
    await until(page, () => mock.objects.feeds.size, (n) => n === 0);
    await page.evaluate(() => {
      const now = Date.now;
      Date.now = () => now() + 61_000;
    });
    await button(page, 'Resume changes').click();
    await until(page, () => mock.objects.feeds.size, (n) => n === 1);
    assert.equal([...mock.objects.feeds][0].from, null);
    await seen(page, /more than a minute in which the feed was paused or hidden are left out/);
    await button(page, 'Drop…').click();
    await button(page, 'Drop the view').click();
    await page.getByRole('heading', { name: 'Views', level: 1 }).waitFor();
    assert.deepEqual(mock.objects.changes, ['DROP VIEW pages']);
  }],
  ['jobs: history, run, disable and enable; firing alerts first; endpoints are tried', {}, async ({ open, mock, check }) => {
    const page = await open('#/jobs');
    const alerts = page.getByRole('table', { name: 'Alerts' });
    assert.match(await alerts.getByRole('row').nth(1).innerText(), /^popular/);
    await button(page, 'History of hourly').press('Enter');
    await page.getByRole('dialog').getByText('table `totals` does not exist').waitFor();
    await check(page, 'history of a job');
    await page.keyboard.press('Escape');
    await button(page, 'Run now: hourly').click();
    await page.getByRole('dialog').getByText('RUN JOB hourly').waitFor();
    assert.deepEqual(mock.objects.changes, []);
    await button(page, 'Run the job now').click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await button(page, 'Disable hourly').click();
    await button(page, 'Disable the job').click();
    await button(page, 'Enable hourly').click();
    await button(page, 'Enable the job').click();
    await button(page, 'Disable hourly').waitFor();
    await button(page, 'Statement of popular').click();
    await page.getByRole('dialog').getByText('CREATE ALERT popular').waitFor();
    await page.keyboard.press('Escape');
    await button(page, 'Try it: GET /pages/{page}').click();
    await page.getByRole('textbox', { name: 'page: STRING' }).fill('a b');
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'Answer' }).getByText('"page":"a b"').waitFor();
    await check(page, 'try an endpoint');
    await page.keyboard.press('Escape');
    await button(page, 'Drop GET /pages/{page}').click();
    await button(page, 'Drop the endpoint').click();
    await until(page, () => mock.objects.changes.length, (n) => n === 4);
    assert.deepEqual(mock.objects.changes, ['RUN JOB hourly', 'ALTER JOB hourly DISABLE', 'ALTER JOB hourly ENABLE', "DROP ENDPOINT GET '/pages/{page}'"]);
  }],
  ['objects: views, alerts, sinks and jobs are created by forms that show the statement', {}, async ({ open, mock, check }) => {
    const page = await open(`#/ask?q=${encodeURIComponent('SELECT page, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) GROUP BY page')}`);
    await page.getByText('This question came with a link').waitFor();
    await nav(page, 'Views').click();
    await button(page, 'Create a view').press('Enter');
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('pages');
    await page.getByRole('region', { name: 'Statement' }).getByText('CREATE MATERIALIZED VIEW pages AS SELECT page, COUNT(*) AS n FROM STREAM(flights) GROUP BY page').waitFor();
    await check(page, 'create a view');
    await button(page, 'Create the view').click();
    await page.getByRole('heading', { name: 'pages', level: 1 }).waitFor();
    await nav(page, 'Jobs & alerts').click();
    for (const [title, fields, run] of [
      ['Create an alert', { Name: 'many', View: 'pages', Condition: 'n > 5', 'Into the stream or webhook': 'alerts' }, 'Create the alert'],
      ['Create a job', { Name: 'daily', Schedule: '@daily', Statements: 'INSERT INTO t SELECT 1' }, 'Create the job'],
      ['Create a sink', { Name: 'out', 'View with windows, or CHANGES OF view': 'pages', 'Into the stream or webhook': 'https://h/x' }, 'Create the sink'],
    ]) {
      await button(page, title).click();
      for (const [name, value] of Object.entries(fields)) await page.getByRole('textbox', { name, exact: true }).fill(value);
      await button(page, run).click();
      await button(page, run).waitFor({ state: 'detached' });
    }
    assert.deepEqual(mock.objects.changes.slice(1), ['CREATE ALERT many ON pages WHEN n > 5 INTO alerts', "CREATE JOB daily SCHEDULE '@daily' AS\nINSERT INTO t SELECT 1", "CREATE SINK out FROM pages INTO WEBHOOK 'https://h/x'"]);
  }],
  ['objects: a read-only console offers nothing that changes anything', { set: { mode: 'read_only' } }, async ({ open, mock }) => {
    const page = await open();
    await page.getByRole('link', { name: 'Details of flights' }).click();
    await page.getByRole('table', { name: 'Columns' }).waitFor();
    await page.getByRole('table', { name: 'Queries' }).waitFor();
    const offered = async () => (await page.getByRole('main').getByRole('button').allInnerTexts()).concat(await page.getByRole('main').getByRole('button').evaluateAll((all) => all.map((one) => one.getAttribute('aria-label') ?? '')));
    const forbidden = /^(drop|create|alter|send|end|run now|enable|disable|pause reading|resume reading)\b/i;
    assert.deepEqual((await offered()).filter((name) => forbidden.test(name)), []);
    await nav(page, 'Views').click();
    await page.getByRole('link', { name: 'pages' }).click();
    await page.getByRole('table', { name: 'Rows of the view' }).waitFor();
    assert.deepEqual((await offered()).filter((name) => forbidden.test(name)), []);
    await nav(page, 'Jobs & alerts').click();
    await page.getByRole('table', { name: 'Endpoints' }).waitFor();
    await page.getByRole('table', { name: 'Jobs' }).waitFor();
    assert.deepEqual((await offered()).filter((name) => forbidden.test(name)), []);
    assert.equal(await button(page, 'Try it: POST /click').count(), 0);
    assert.deepEqual(mock.objects.changes, []);
  }],
  ['objects: a server that is away leaves the data, marked as stale, and comes back', {}, async ({ open, mock }) => {
    const page = await open('#/views');
    await page.getByRole('link', { name: 'pages' }).waitFor();
    mock.objects.fail = /^v1\/views/;
    await page.getByText(/^Stale since \d\d:\d\d:\d\d CET: The server shuts down/).waitFor();
    await page.getByRole('link', { name: 'pages' }).waitFor();
    mock.objects.fail = null;
    await page.getByText(/^Stale since/).waitFor({ state: 'detached' });
    await page.route('**/v1/views', (route) => route.abort());
    await page.getByText(/^Stale since .*: The server does not answer/).waitFor();
    await page.unroute('**/v1/views');
    await page.getByText(/^Stale since/).waitFor({ state: 'detached' });
    mock.objects.fail = /^v1\/sql/;
    await nav(page, 'Jobs & alerts').click();
    await seen(page, 'The server shuts down');
    mock.objects.fail = null;
    await page.getByRole('table', { name: 'Jobs' }).waitFor();
  }],
  ['objects: empty lists say how to make the first one', { alone: true }, async ({ open, mock, check }) => {
    mock.objects.empty = true;
    const page = await open('#/jobs');
    for (const text of ['There is no job.', 'There is no alert.', 'There is no sink.', 'There is no join.', 'There is no endpoint.']) await seen(page, text);
    await check(page, 'no jobs');
    await nav(page, 'Views').click();
    await seen(page, 'There is no view.');
    await button(page, 'Copy: Example').click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^CREATE MATERIALIZED VIEW/);
    await nav(page, 'Streams').click();
    await seen(page, 'There is no stream.');
    await page.goto(`${mock.url}#/streams/nothing`);
    await seen(page, 'There is no stream of this name.');
    await check(page, 'no stream');
  }],
  ['objects: a link to a stream with an odd name opens in another window', {}, async ({ open, mock, context }) => {
    mock.objects.streams = ['a b/<img src=x>', 'flights'];
    const page = await open('#/streams');
    const link = page.getByRole('link', { name: 'a b/<img src=x>' });
    const address = await link.evaluate((element) => element.href);
    const other = await context.browser().newContext();
    const second = await other.newPage();
    await second.goto(address);
    await second.getByRole('heading', { name: 'a b/<img src=x>', level: 1 }).waitFor();
    await second.getByText('999,999').or(second.getByText('1,000,000')).first().waitFor();
    await other.close();
  }],
  ...['light', 'dark'].flatMap((theme) =>
    [1280, 360].map((width) => [
      `objects: accessible, ${theme}, ${width} px`,
      { theme, viewport: { width, height: 800 } },
      async ({ open, mock, check, pictures }) => {
        const page = await open('#/streams');
        for (const [name, at, table] of [
          ['streams', '#/streams', 'Streams'],
          ['stream', '#/streams/flights', 'Columns'],
          ['views', '#/views', 'Views'],
          ['view', '#/views/pages', 'Rows of the view'],
          ['jobs', '#/jobs', 'Endpoints'],
        ]) {
          await page.goto(`${mock.url}${at}`);
          await page.getByRole('table', { name: table, exact: true }).waitFor();
          await check(page, name);
          assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is too wide`);
          const small = await page.evaluate(() =>
            [...document.querySelectorAll('main button, main a, main input, main select, main summary, nav a')]
              .map((element) => [element.textContent || element.tagName, element.getBoundingClientRect()])
              .filter(([, box]) => box.width > 0 && (box.height < 23.5 || box.width < 23.5))
              .map(([text, box]) => `${text} ${box.width}×${box.height}`),
          );
          assert.deepEqual(small.filter((one) => !/^INPUT 16×16/.test(one)), [], name);
          if (pictures !== null) await page.screenshot({ path: `${pictures}/${name}-${theme}-${width}.png`, fullPage: true });
        }
      },
    ]),
  ),
];
