// From a result to a view, an alert or a sink, each as one test: [name, options, body].
import assert from 'node:assert/strict';
import { WINDOWED, button, editing, run, seen, status, until } from './steps.mjs';

const field = (page, name) => page.getByRole('textbox', { name });
const statement = (page) => page.getByRole('region', { name: 'Statement', exact: true });
const KEPT = 'SELECT carrier, COUNT(*) AS n FROM STREAM(flights) GROUP BY carrier WINDOWING TUMBLING(250, TIME)';

/** Runs `text` and opens the menu of its result. */
async function keep(open, text) {
  const page = await open('#/ask');
  await editing(page);
  await run(page, text);
  await status(page).waitFor();
  await button(page, 'Keep').click();
  return page;
}

export const keepTests = [
  ['keep: a grouped query opens the form of a view, which shows its statement first', {}, async ({ open, mock }) => {
    const page = await keep(open, `${WINDOWED.replace(' WINDOWING', ' ORDER BY n DESC WINDOWING')} LIMIT 5`);
    await button(page, 'Keep as view').press('Enter');
    await page.getByRole('heading', { name: 'Views', level: 1 }).waitFor();
    await until(page, () => field(page, 'Name').first().evaluate((box) => box === document.activeElement), (focused) => focused);
    assert.equal(await field(page, /^Query/).inputValue(), KEPT);
    await seen(page, /Left out, .*: ORDER BY, LIMIT\./);
    await page.keyboard.type('by carrier');
    await statement(page).getByText(`CREATE MATERIALIZED VIEW "by carrier" AS`).waitFor();
    assert.deepEqual(mock.objects.changes, []);
    await page.keyboard.press('Enter');
    await until(page, () => mock.objects.changes, (all) => all.length === 1);
    assert.equal(mock.objects.changes[0], `CREATE MATERIALIZED VIEW "by carrier" AS\n${KEPT}`);
  }],
  ['keep: the form of an alert has the query in place of a view', {}, async ({ open, mock }) => {
    const page = await keep(open, WINDOWED);
    await button(page, 'Make alert').click();
    await page.getByRole('heading', { name: 'Jobs & alerts', level: 1 }).waitFor();
    await page.keyboard.type('busy');
    await field(page, 'Condition').fill('n > 100');
    await field(page, 'Into the stream or webhook').fill('alerts');
    await statement(page).getByText('CREATE ALERT busy ON (').waitFor();
    assert.equal(await field(page, 'Condition').getAttribute('placeholder'), 'n > 100');
    await button(page, 'Create the alert').click();
    await until(page, () => mock.objects.changes, (all) => all.length === 1);
    assert.equal(mock.objects.changes[0], `CREATE ALERT busy ON (\n${KEPT}\n) WHEN n > 100 INTO alerts`);
    await button(page, 'Create an alert').click();
    await field(page, 'View').waitFor();
  }],
  ['keep: the form of a sink has a query without groups; a view of it says why not', {}, async ({ open, mock }) => {
    const page = await keep(open, 'SELECT carrier FROM STREAM(flights, MAX, TIME) WHERE dep_delay > 5');
    const view = button(page, /^Keep as view/);
    await view.getByText('A view has one row a key: the query needs GROUP BY or aggregates.').waitFor();
    await view.focus();
    await page.keyboard.press('Enter');
    await button(page, 'Into sink').click();
    await page.getByRole('heading', { name: 'Jobs & alerts', level: 1 }).waitFor();
    await page.keyboard.type('delays');
    await field(page, 'Into the stream or webhook').fill('delayed');
    await button(page, 'Create the sink').click();
    await until(page, () => mock.objects.changes, (all) => all.length === 1);
    assert.equal(mock.objects.changes[0], 'CREATE SINK delays FROM (\nSELECT carrier FROM STREAM(flights) WHERE dep_delay > 5\n) INTO STREAM delayed');
  }],
  ['keep: a sink of a grouped query, and a server without data, say why not', { set: { features: ['sql'] } }, async ({ open }) => {
    const page = await keep(open, WINDOWED);
    await button(page, /^Into sink/).getByText('keep it as a view').waitFor();
    await button(page, /^Keep as view/).getByText('This server has no data directory.').waitFor();
    assert.equal(await button(page, /^Keep as view/).getAttribute('aria-disabled'), 'true');
  }],
  ['keep: a read-only console offers none', { set: { mode: 'read_only' } }, async ({ open }) => {
    const page = await open('#/ask');
    await editing(page);
    await run(page, WINDOWED);
    await status(page).waitFor();
    await button(page, 'Share').waitFor();
    assert.equal(await button(page, 'Keep').count(), 0);
  }],
];
