// Dashboards as they are seen: list, panels by source, variables, links, full screen, the ways to them. Each test is [name, options, body].
import assert from 'node:assert/strict';
import { HOSTILE } from '../mock_saved.mjs';
import { WINDOWED, button, live, query, run, seen, until } from './steps.mjs';

export const SAVED = ['history', 'search', 'sql', 'views', 'saved'];
export const panelOf = (id, source, more = {}) => ({ id, title: `Panel ${id}`, x: 0, y: 0, w: 6, h: 8, source, ...more });
export const board = (panels, more = {}) => ({ version: 1, title: 'Board', panels, ...more });
export const put = (mock, content, name = 'board', comment = null) => mock.saved.put(name, content, comment, 'dashboards');
export const panel = (page, name) => page.getByLabel(name, { exact: true }).and(page.locator('.dash-panel'));
const text = (markdown) => ({ kind: 'text', markdown });
const liveQuery = (given = WINDOWED, more = {}) => ({ kind: 'live', text: given, ...more });
const sql = (given, more = {}) => ({ kind: 'sql', text: given, ...more });

/** A board with a panel of each kind. */
export const every = () => board([
  panelOf('live', liveQuery(), { show: { as: 'line' } }),
  panelOf('sql', sql('SELECT carrier, n FROM t'), { x: 6, show: { as: 'table' } }),
  panelOf('view', { kind: 'view', view: 'pages' }, { y: 8 }),
  panelOf('search', { kind: 'search', table: 'flights', query: 'timeout', limit: 5 }, { x: 6, y: 8 }),
  panelOf('metrics', { kind: 'metrics', families: ['swiftwater_stream_events_total'] }, { y: 16 }),
  panelOf('text', text('# About\nSome **bold** text with a [link](https://example.com/).'), { x: 6, y: 16 }),
]);

export const dashboardTests = [
  ['dashboards: the list by prefix and page, and one deleted after a question', { set: { features: SAVED } }, async ({ open, mock, check }) => {
    for (let i = 0; i < 120; i += 1) put(mock, board([], { title: `Title ${i}` }), `d${String(i).padStart(3, '0')}`, i === 0 ? 'a comment' : null);
    const page = await open('#/dashboards');
    const rows = page.getByRole('table', { name: 'Dashboards' }).getByRole('row');
    await rows.nth(100).waitFor();
    await seen(page, 'a comment');
    await button(page, 'Next page').click();
    await page.getByRole('link', { name: 'd100', exact: true }).waitFor();
    await page.getByRole('textbox', { name: 'Name begins with' }).fill('d00');
    await until(page, () => rows.count(), (count) => count === 11);
    await button(page, 'Delete d003').click();
    await button(page, 'Back').click();
    assert.ok(mock.saved.objects.has('dashboards/d003'));
    await button(page, 'Delete d003').click();
    await button(page, 'Delete the dashboard').click();
    await page.getByRole('link', { name: 'd003', exact: true }).waitFor({ state: 'detached' });
    assert.ok(!mock.saved.objects.has('dashboards/d003'));
    await check(page, 'list of dashboards');
  }],
  ['dashboards: not offered by a server that saves nothing, and said where nothing is kept', { set: { features: ['sql', 'views'] } }, async ({ open, mock }) => {
    const page = await open('#/dashboards');
    await page.getByText('This server does not have this page').waitFor();
    mock.features = SAVED;
    mock.saved.kept = false;
    const other = await open('#/dashboards');
    await other.getByText('This server stores dashboards in memory only').waitFor();
    await other.getByText('There is no dashboard.').waitFor();
  }],
  ['dashboards: an example with one click shows live numbers, and its equal queries run once', { set: { features: SAVED } }, async ({ open, mock }) => {
    const page = await open('#/dashboards');
    await button(page, 'Flights of the demo').click();
    await page.getByRole('heading', { name: 'Flights', level: 1 }).waitFor();
    const tile = panel(page, 'Flights a second').getByRole('group', { name: /^n: / });
    const first = await tile.getAttribute('aria-label');
    await until(page, () => tile.getAttribute('aria-label'), (now) => now !== first);
    await panel(page, 'Flights a second').getByText('Live', { exact: true }).waitFor();
    await panel(page, 'Flights by carrier').getByRole('group', { name: /^Chart: n by carrier/ }).locator('canvas').waitFor();
    await panel(page, 'Mean departure delay, minutes').getByRole('meter').waitFor();
    const sums = mock.asked.filter((asked) => /AVG\(dep_delay\)/.test(asked));
    assert.equal(sums.length, 1, 'two panels share one subscription');
    assert.deepEqual(mock.frames.find(({ text: asked }) => /\$1/.test(asked))?.parameters, ['UA', 30]);
    await page.getByRole('link', { name: 'Dashboards', exact: true }).last().click();
    await button(page, 'This server').click();
    await page.getByRole('heading', { name: 'This server', level: 1 }).waitFor();
    await panel(page, 'Events a second by stream').getByRole('group', { name: /^Chart: swiftwater_stream_events_total/ }).locator('canvas').waitFor();
    await panel(page, 'Live queries').getByRole('group', { name: /^queries: 3|: 3/ }).waitFor();
    await page.getByRole('link', { name: 'Dashboards', exact: true }).last().click();
    await button(page, 'This server').click();
    await page.getByRole('alert').getByText(/has revision/).waitFor();
  }],
  ['dashboards: a panel of each source, in both themes and on a narrow screen', { set: { features: SAVED } }, async ({ open, mock, check, pictures }) => {
    put(mock, every());
    const page = await open('#/dashboards/board');
    await panel(page, 'Panel live').getByRole('group', { name: /^Chart: n by carrier/ }).locator('canvas').waitFor();
    await panel(page, 'Panel sql').getByRole('gridcell', { name: 'DL' }).waitFor();
    await panel(page, 'Panel view').getByText('/home').waitFor();
    await panel(page, 'Panel search').getByText(/read timeout of request 1/).first().waitFor();
    // Panels are read once they are on screen.
    await panel(page, 'Panel metrics').scrollIntoViewIfNeeded();
    await panel(page, 'Panel metrics').getByText('stream=flights', { exact: true }).waitFor();
    await panel(page, 'Panel text').getByRole('heading', { name: 'About', level: 3 }).waitFor();
    assert.equal(await panel(page, 'Panel text').getByRole('link', { name: 'link' }).getAttribute('href'), 'https://example.com/');
    assert.deepEqual(mock.saved.sql[0], { query: 'SELECT carrier, n FROM t', parameters: [], readOnly: true });
    assert.ok(mock.searches.length > 0);
    await check(page, 'dashboard, light');
    await page.emulateMedia({ colorScheme: 'dark' });
    await check(page, 'dashboard, dark');
    if (pictures !== null) await page.screenshot({ path: `${pictures}/dashboard.png`, fullPage: true });
    await page.setViewportSize({ width: 360, height: 740 });
    await panel(page, 'Panel sql').getByRole('gridcell', { name: 'DL' }).waitFor();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await check(page, 'dashboard, dark, narrow');
    if (pictures !== null) await page.screenshot({ path: `${pictures}/dashboard_narrow.png`, fullPage: true });
    await page.emulateMedia({ colorScheme: 'light' });
    await check(page, 'dashboard, light, narrow');
  }],
  ['dashboards: the state of panels: failed, stale, asked again', { set: { features: SAVED } }, async ({ open, mock }) => {
    put(mock, board([panelOf('bad', liveQuery('SELECT *\nFRM x')), panelOf('worse', sql('SELECT FRM x'), { x: 6 }), panelOf('good', liveQuery(), { y: 8 }), panelOf('read', sql('SELECT a FROM t', {}), { x: 6, y: 8, refresh_ms: 1000 })]));
    const page = await open('#/dashboards/board');
    await panel(page, 'Panel bad').getByText('expected `,` or FROM, found `FRM`').waitFor();
    await panel(page, 'Panel bad').getByText('Failed', { exact: true }).waitFor();
    await panel(page, 'Panel worse').getByText('expected FROM, found `FRM`').waitFor();
    await panel(page, 'Panel worse').getByText('Line 1, column 8.').waitFor();
    await panel(page, 'Panel good').getByText('Live', { exact: true }).waitFor();
    await panel(page, 'Panel good').getByText(/^dropped/).waitFor();
    const asked = mock.asked.length;
    await panel(page, 'Panel bad').getByRole('button', { name: 'Ask again' }).click();
    await until(page, () => mock.asked.length, (count) => count === asked + 1);
    await panel(page, 'Panel read').getByText(/^Read at /).waitFor();
    mock.objects.fail = /./;
    await page.route('**/v1/sql**', (route) => route.abort());
    await panel(page, 'Panel read').getByText(/^Stale since /).waitFor();
    await panel(page, 'Panel read').getByRole('gridcell', { name: 'DL' }).waitFor();
    mock.refuseSockets = true;
    mock.dropSockets();
    await panel(page, 'Panel good').getByText(/^Stale since /).waitFor();
    mock.refuseSockets = false;
    await panel(page, 'Panel good').getByText('Live', { exact: true }).waitFor({ timeout: 12_000 });
    assert.ok(mock.attached.length > 0, 'the query goes on');
  }],
  ['dashboards: variables and time come from the link, and are bound, not pasted', { alone: true, set: { features: SAVED } }, async ({ open, mock }) => {
    const parameters = [{ variable: 'carrier' }, { variable: 'delay' }, { time: 'from' }];
    const variables = [{ name: 'carrier', label: 'Carrier', kind: 'query', sql: 'SELECT DISTINCT carrier FROM flights' }, { name: 'delay', kind: 'text', default: 5 }, { name: 'origin', kind: 'list', values: ['EWR', 'JFK'] }];
    put(mock, board([panelOf('live', liveQuery('SELECT * FROM STREAM(flights, MAX, TIME) WHERE carrier = $1 AND dep_delay > $2 AND time > $3', { parameters })), panelOf('sql', sql('SELECT 1 WHERE $1 = $2', { parameters: [{ variable: 'origin' }, 'JFK'] }), { x: 6 })], { variables }));
    const evil = "x' OR 1=1; DROP STREAM flights; --";
    const page = await open(`#/dashboards/board?v.carrier=${encodeURIComponent(evil)}&v.delay=15&v.origin=JFK&last=60000&zone=UTC&refresh=2000`);
    const frame = await until(page, () => mock.frames[0], (found) => found !== undefined);
    assert.match(frame.text, /carrier = \$1/);
    assert.deepEqual(frame.parameters.slice(0, 2), [evil, 15]);
    assert.ok(Math.abs(Date.parse(frame.parameters[2]) - (Date.now() - 60_000)) < 10_000);
    await until(page, () => mock.saved.sql.find(({ query: asked }) => /\$1/.test(asked))?.parameters, (bound) => JSON.stringify(bound) === '["JFK","JFK"]');
    assert.ok(mock.saved.sql.every(({ readOnly }) => readOnly));
    await seen(page, /Read at .* UTC/);
    assert.equal(await page.getByRole('combobox', { name: 'Time' }).inputValue(), '60000');
    const box = page.getByRole('combobox', { name: 'Carrier' });
    assert.equal(await box.inputValue(), evil);
    await box.selectOption('UA');
    await until(page, () => mock.frames.length, (count) => count === 2);
    assert.deepEqual(mock.frames[1].parameters.slice(0, 2), ['UA', 15]);
    await page.getByRole('textbox', { name: 'delay' }).fill('"15"');
    await page.keyboard.press('Enter');
    await until(page, () => mock.frames.length, (count) => count === 3);
    assert.equal(mock.frames[2].parameters[1], '15');
    await button(page, 'Share').click();
    await button(page, 'Copy link').click();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    const other = await open(link.slice(link.indexOf('#')));
    await until(other, () => mock.frames.length, (count) => count === 4);
    assert.deepEqual(mock.frames[3].parameters.slice(0, 2), ['UA', '15']);
    await button(page, 'Back to the values of the dashboard').click();
    await until(page, () => mock.frames.length, (count) => count === 5);
    assert.deepEqual(mock.frames[4].parameters.slice(0, 2), [null, 5]);
    assert.ok(!page.url().includes('?'));
  }],
  ['dashboards: hostile titles, values and Markdown are text', { set: { features: SAVED } }, async ({ open, mock, check }) => {
    const evil = '<script>window.hacked = true</script>';
    put(mock, board([
      panelOf('a', sql('SELECT * FROM hostile'), { title: HOSTILE, show: { as: 'table' } }),
      panelOf('b', liveQuery('SELECT * FROM STREAM(hostile, MAX, TIME)'), { x: 6, title: '__proto__', show: { as: 'table', options: JSON.parse('{"__proto__": 1, "measure": "__proto__"}') } }),
      panelOf('c', text(`# ${evil}\n[click](javascript:alert(1)) ${HOSTILE} [ok](https://example.com)`), { y: 8 }),
      panelOf('d', sql('SELECT * FROM hostile'), { x: 6, y: 8, show: { as: 'bar' } }),
    ], { title: evil, description: `**${HOSTILE}**`, variables: [{ name: '__proto__', label: HOSTILE, kind: 'list', values: [HOSTILE, '__proto__'] }] }), 'evil', HOSTILE);
    const page = await open('#/dashboards/evil?v.__proto__=__proto__');
    await page.getByRole('heading', { name: evil, level: 1 }).waitFor();
    const shown = '<img src=x onerror=alert(1)>\\u202eevil\\u0007';
    await page.getByRole('heading', { name: shown, level: 2 }).waitFor();
    await panel(page, shown).getByText(shown).first().waitFor();
    await panel(page, '__proto__').getByRole('columnheader', { name: /__proto__/ }).waitFor();
    await panel(page, 'Panel c').getByText('[click](javascript:alert(1))').waitFor();
    assert.equal(await panel(page, 'Panel c').getByRole('link').count(), 1);
    assert.equal(await page.getByRole('combobox', { name: shown }).inputValue(), '__proto__');
    assert.equal(await page.locator('main img, main script').count(), 0);
    assert.equal(await page.evaluate(() => window.hacked === undefined && {}.a === undefined), true);
    await check(page, 'hostile dashboard');
    await page.goto(`${mock.url}#/dashboards`);
    await page.getByRole('table', { name: 'Dashboards' }).getByText(evil).waitFor();
  }],
  ['dashboards: a document that this page cannot show, and one that is not there', { set: { features: SAVED } }, async ({ open, mock }) => {
    put(mock, { version: 9, title: 'later', panels: [] }, 'later');
    const page = await open('#/dashboards/later');
    await page.getByText('/version must be a whole number from 1 to 1').waitFor();
    const other = await open('#/dashboards/none');
    await other.getByText('no dashboard `none`').waitFor();
    await button(other, 'Try again').waitFor();
  }],
  ['dashboards: twenty panels, and those off screen are not asked', { set: { features: SAVED } }, async ({ open, mock, check }) => {
    const panels = Array.from({ length: 20 }, (_, i) => panelOf(`p${i}`, i % 2 === 0 ? liveQuery(`SELECT carrier, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) WHERE ${i} = ${i} GROUP BY carrier WINDOWING TUMBLING(250, TIME)`) : sql(`SELECT carrier, n FROM t${i}`), { x: (i % 2) * 6, y: 8 * Math.floor(i / 2), refresh_ms: 1000 }));
    put(mock, board(panels));
    const page = await open('#/dashboards/board');
    await panel(page, 'Panel p0').locator('canvas').waitFor();
    await panel(page, 'Panel p1').getByRole('gridcell', { name: 'DL' }).or(panel(page, 'Panel p1').getByText('DL')).first().waitFor();
    await until(page, () => mock.asked.length, (count) => count === 10);
    assert.equal(await page.locator('.dash-panel').count(), 20);
    await page.waitForTimeout(1500);
    assert.ok(!mock.saved.sql.slice(10).some(({ query: asked }) => asked.endsWith('t19')), 'the last panel is read while it is off screen');
    await panel(page, 'Panel p19').scrollIntoViewIfNeeded();
    await until(page, () => mock.saved.sql.filter(({ query: asked }) => asked.endsWith('t19')).length, (count) => count >= 2);
    await panel(page, 'Panel p18').locator('canvas').waitFor();
    await check(page, 'twenty panels');
  }],
  ['dashboards: SQL panels have types, curves over their time, bands, and say that there are more rows', { set: { features: SAVED } }, async ({ open, mock }) => {
    put(mock, board([
      panelOf('types', sql('SELECT carrier, COUNT(*) AS n FROM typed'), { show: { as: 'table' } }),
      panelOf('curves', sql('SELECT at, origin, n FROM series'), { x: 6 }),
      panelOf('bands', sql('SELECT at, origin, n FROM series WHERE 1 = 1'), { y: 8, show: { as: 'bands' } }),
      panelOf('view', { kind: 'view', view: 'pages' }, { x: 6, y: 8 }),
      panelOf('one', sql('SELECT COUNT(*) AS n FROM t'), { y: 16, h: 5, show: { as: 'value' }, refresh_ms: 1000 }),
    ]));
    const page = await open('#/dashboards/board');
    await panel(page, 'Panel types').getByRole('columnheader', { name: /n LONG/ }).waitFor();
    await panel(page, 'Panel curves').getByRole('group', { name: /^Chart: n by origin/ }).locator('canvas').waitFor();
    await panel(page, 'Panel curves').getByText('JFK').first().waitFor();
    await panel(page, 'Panel bands').locator('canvas').waitFor();
    await panel(page, 'Panel view').getByText('The server has more rows.').waitFor();
    await panel(page, 'Panel one').scrollIntoViewIfNeeded();
    await panel(page, 'Panel one').getByRole('group', { name: /^n: 42, from 42 to 42 over [2-9] windows/ }).waitFor();
    await page.getByRole('combobox', { name: 'Time' }).selectOption('from … to');
    await page.getByRole('textbox', { name: 'From' }).fill('2026-11-30T12:00:00Z');
    await page.getByRole('textbox', { name: 'To' }).fill('no time');
    assert.equal(await button(page, 'Set the time').isDisabled(), true);
    await page.getByRole('textbox', { name: 'To' }).fill('2026-11-30T13:00:00Z');
    await button(page, 'Set the time').click();
    await until(page, () => page.url(), (url) => url.includes('from=2026-11-30T12%3A00%3A00Z&to=2026-11-30T13%3A00%3A00Z'));
  }],
  ['dashboards: a saved query by its name', { set: { features: SAVED } }, async ({ open, mock }) => {
    mock.saved.put('slow', WINDOWED);
    put(mock, board([panelOf('a', { kind: 'live', saved: 'slow' })]));
    const page = await open('#/dashboards/board');
    await panel(page, 'Panel a').getByRole('group', { name: /^Chart: n by carrier/ }).locator('canvas').waitFor();
    assert.equal(mock.frames[0].saved, 'slow');
  }],
  ['dashboards: full screen by a button, and back by Escape', { alone: true, set: { features: SAVED } }, async ({ open, mock }) => {
    put(mock, board([panelOf('a', text('here'))]));
    const page = await open('#/dashboards/board');
    await button(page, 'Full screen').click();
    await button(page, 'Leave full screen').waitFor();
    assert.equal(await page.evaluate(() => document.fullscreenElement !== null), true);
    assert.equal(await button(page, 'Edit').count(), 0);
    // A headless browser does not take Escape for this, so the button stands for it.
    await button(page, 'Leave full screen').click();
    await button(page, 'Full screen').waitFor();
    assert.equal(await page.evaluate(() => document.fullscreenElement === null), true);
  }],
  ['dashboards: a result of Ask gets onto a dashboard with two clicks, and onto a new one', { set: { features: SAVED } }, async ({ open, mock }) => {
    put(mock, board([panelOf('a', text('here'))]));
    const page = await open('#/ask');
    await run(page, WINDOWED);
    await live(page);
    await button(page, 'Bars').click();
    await button(page, 'Onto a dashboard').click();
    await button(page, 'board').click();
    await page.getByText('Added to board.').first().waitFor();
    const [, added] = mock.saved.get('board', 'dashboards').content.panels;
    assert.deepEqual([added.source, added.show, added.x, added.y], [{ kind: 'live', text: WINDOWED }, { as: 'bar' }, 6, 0]);
    await button(page, 'Onto a dashboard').click();
    await button(page, 'A new dashboard…').click();
    await page.getByRole('textbox', { name: 'Name' }).fill('fresh');
    await button(page, 'Create').click();
    await page.getByRole('heading', { name: 'fresh', level: 1 }).waitFor();
    await page.getByRole('group', { name: /^Chart: n by carrier/ }).waitFor();
  }],
  ['dashboards: Home lists the last changed ones, and Ctrl-K finds them', { set: { features: SAVED } }, async ({ open, mock }) => {
    for (let i = 0; i < 8; i += 1) put(mock, board([], { title: `Title ${i}` }), `d${i}`);
    const page = await open();
    const list = page.getByRole('region', { name: 'Dashboards' });
    await list.getByRole('link', { name: 'Title 7' }).waitFor();
    assert.equal(await list.getByRole('link').count(), 5);
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill('dashboard title 2');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Title 2', level: 1 }).waitFor();
  }],
  ['dashboards: a read-only console shows them and offers nothing that saves', { set: { features: SAVED, mode: 'read_only' } }, async ({ open, mock }) => {
    put(mock, every());
    const page = await open('#/dashboards');
    await button(page, 'Export board').waitFor();
    for (const name of ['Create a dashboard', 'Delete board', 'Flights of the demo']) assert.equal(await button(page, name).count(), 0, name);
    await page.getByRole('link', { name: 'board', exact: true }).click();
    await panel(page, 'Panel sql').getByRole('gridcell', { name: 'DL' }).waitFor();
    assert.equal(await button(page, 'Edit').count(), 0);
    const ask = await open(query(WINDOWED));
    await button(ask, 'Run').click();
    await live(ask);
    assert.equal(await button(ask, 'Onto a dashboard').count(), 0);
    assert.ok(!mock.requests.some((request) => /^(PUT|DELETE) v1\/saved/.test(request)));
  }],
];
