// Dashboards as they are changed: by pointer, by keys, by forms; saved, met by another version, kept as a draft, imported and exported.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { SAVED, board, every, panel, panelOf, put } from './dashboards.mjs';
import { button, until } from './steps.mjs';

const text = (markdown) => ({ kind: 'text', markdown });
const pair = () => board([panelOf('a', text('first'), { h: 4 }), panelOf('b', text('second'), { x: 6, h: 4 }), panelOf('c', text('third'), { y: 4, h: 4 })]);
const stored = (mock, name = 'board') => mock.saved.get(name, 'dashboards')?.content;
const places = (mock) => Object.fromEntries(stored(mock).panels.map(({ id, x, y, w, h }) => [id, [x, y, w, h]]));
const saved = (page) => page.getByRole('status').getByText('No unsaved changes').waitFor();

async function edit(open, fragment = '#/dashboards/board') {
  const page = await open(fragment);
  await button(page, 'Edit').click();
  await page.getByRole('toolbar', { name: 'Edit' }).waitFor();
  return page;
}

async function save(page) {
  await button(page, 'Save').click();
  await saved(page);
}

/** Drags a handle by columns and rows. */
async function drag(page, handle, columns, rows) {
  const { width } = await page.locator('.dash-grid').boundingBox();
  const from = await handle.boundingBox();
  const [x, y] = [from.x + from.width / 2, from.y + from.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x + (columns * width) / 24, y + rows * 24, { steps: 3 });
  await page.mouse.move(x + (columns * width) / 12, y + rows * 48, { steps: 3 });
  await page.mouse.up();
}

export const dashboardEditTests = [
  ['dashboards: panels move and resize by pointer, push others down, and are saved', { set: { features: SAVED } }, async ({ open, mock, check }) => {
    put(mock, pair());
    const page = await edit(open);
    await drag(page, button(page, 'Move Panel b'), -6, 2);
    await page.getByText('Unsaved changes, stored in this browser').waitFor();
    await save(page);
    assert.deepEqual(places(mock), { a: [0, 6, 6, 4], b: [0, 2, 6, 4], c: [0, 10, 6, 4] });
    await drag(page, button(page, 'Resize Panel b'), 3, 1);
    await save(page);
    assert.deepEqual(places(mock).b, [0, 2, 9, 5]);
    assert.equal(await button(page, 'Undo').isDisabled(), true, 'saved changes are not undone');
    await button(page, 'Close gaps').click();
    await save(page);
    assert.deepEqual(places(mock).b, [0, 0, 9, 5]);
    await check(page, 'edit mode');
  }],
  ['dashboards: panels move and resize by keys, their place is spoken, and undo goes back', { set: { features: SAVED } }, async ({ open, mock }) => {
    put(mock, pair());
    const page = await edit(open);
    const group = page.getByRole('group', { name: 'Panel b', exact: true });
    await group.focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowLeft');
    await page.getByRole('status').getByText('Panel b: column 6, row 2, 6 wide, 4 high').waitFor();
    await page.keyboard.press('Shift+ArrowLeft');
    await page.keyboard.press('Shift+ArrowDown');
    await page.getByRole('status').getByText('Panel b: column 6, row 2, 5 wide, 5 high').waitFor();
    assert.equal(await group.evaluate((element) => element === document.activeElement), true, 'the focus stays');
    await button(page, 'Resize Panel b').focus();
    await page.keyboard.press('ArrowRight');
    await button(page, 'Move Panel b').focus();
    await page.keyboard.press('ArrowRight');
    await save(page);
    assert.deepEqual(places(mock).b, [6, 1, 6, 5]);
    await page.keyboard.press('Tab');
    await group.focus();
    await page.keyboard.press('ArrowDown');
    await button(page, 'Undo').click();
    await saved(page);
  }],
  ['dashboards: a panel is added, edited by its form, duplicated and removed', { set: { features: SAVED } }, async ({ open, mock, check }) => {
    put(mock, board([]));
    const page = await edit(open);
    await button(page, 'Add a panel').click();
    const dialog = page.getByRole('dialog');
    await button(dialog, 'Add').click();
    await dialog.getByText('source/text must be text').waitFor();
    await check(page, 'form of a panel');
    await dialog.getByRole('textbox', { name: 'Title' }).fill('Numbers');
    await dialog.getByRole('combobox', { name: 'Source' }).selectOption('SQL');
    await dialog.getByRole('textbox', { name: /^Statement/ }).fill('SELECT COUNT(*) AS n FROM t WHERE a = $1 AND b > $2');
    await dialog.getByRole('textbox', { name: /^Parameters/ }).fill(':carrier\n@from');
    await dialog.getByRole('combobox', { name: 'Show as' }).selectOption('Gauge');
    await dialog.getByRole('textbox', { name: 'Greatest' }).fill('50');
    await dialog.getByRole('textbox', { name: 'Unit' }).fill('flights');
    for (const [name, value] of Object.entries({ x: '2', y: '1', w: '4', h: '5' })) await dialog.getByRole('textbox', { name, exact: true }).fill(value);
    await button(dialog, 'Add').click();
    await panel(page, 'Numbers').getByText('42 flights').waitFor();
    await button(page, 'Duplicate Numbers').click();
    await until(page, () => page.locator('.dash-panel').count(), (count) => count === 2);
    await button(page, 'Remove Numbers').first().press('Enter');
    await until(page, () => page.evaluate(() => document.activeElement?.getAttribute('aria-label')), (name) => name === 'Panels');
    await save(page);
    const [left] = stored(mock).panels;
    assert.deepEqual(left.source, { kind: 'sql', text: 'SELECT COUNT(*) AS n FROM t WHERE a = $1 AND b > $2', parameters: [{ variable: 'carrier' }, { time: 'from' }] });
    assert.deepEqual(left.show, { as: 'gauge', options: { max: 50, unit: 'flights' } });
    await button(page, 'Settings…').click();
    await page.getByRole('textbox', { name: 'Title' }).fill('Renamed');
    await button(page, 'Add a variable').click();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('carrier');
    await page.getByRole('textbox', { name: 'Default' }).fill('UA');
    await check(page, 'settings of a dashboard');
    await button(page, 'Apply').click();
    await page.getByRole('heading', { name: 'Renamed', level: 1 }).waitFor();
    await until(page, () => mock.saved.sql.some(({ parameters }) => parameters[0] === 'UA'), Boolean);
    await save(page);
    assert.deepEqual(stored(mock).variables, [{ name: 'carrier', kind: 'text', default: 'UA' }]);
  }],
  ['dashboards: another version is shown, and one can take it, save over it, or save elsewhere', { set: { features: SAVED } }, async ({ open, mock, check }) => {
    put(mock, pair());
    const page = await edit(open);
    const meet = async () => {
      await button(page, 'Remove Panel b').click();
      put(mock, board([panelOf('z', text('theirs'))], { title: 'Theirs' }));
      await button(page, 'Save').click();
      await page.getByRole('dialog', { name: 'The dashboard was changed meanwhile' }).waitFor();
    };
    await meet();
    await page.getByRole('list', { name: 'Differences' }).getByText('Only theirs has the panel “Panel z”.').waitFor();
    await page.getByRole('region', { name: 'My version' }).getByText('"third"').waitFor();
    await page.getByRole('region', { name: 'Their version' }).getByText('"theirs"').waitFor();
    await check(page, 'conflict');
    await button(page, 'Take theirs').click();
    await page.getByRole('heading', { name: 'Theirs', level: 1 }).waitFor();
    await saved(page);
    put(mock, pair());
    await button(page, 'Remove Panel z').click();
    await button(page, 'Save').click();
    await button(page, 'Save mine over theirs').click();
    await saved(page);
    assert.deepEqual(stored(mock).panels, []);
    mock.saved.drop('board', 'dashboards');
    await button(page, 'Add a panel').click();
    await page.getByRole('combobox', { name: 'Source' }).selectOption('Text');
    await page.getByRole('textbox', { name: /^Text/ }).fill('mine');
    await button(page, 'Add').click();
    await button(page, 'Save').click();
    await page.getByRole('dialog', { name: 'The dashboard was deleted meanwhile' }).waitFor();
    await page.getByRole('textbox', { name: 'Another name' }).fill('mine');
    await button(page, 'Save mine under this name').click();
    await until(page, () => page.url(), (url) => url.endsWith('#/dashboards/mine'));
    assert.equal(stored(mock, 'mine').panels[0].source.markdown, 'mine');
    assert.equal(stored(mock), undefined);
  }],
  ['dashboards: unsaved changes stay in the browser, are shown again, and are discarded', { set: { features: SAVED } }, async ({ open, mock }) => {
    put(mock, pair());
    const page = await edit(open);
    await button(page, 'Remove Panel a').click();
    await page.getByRole('link', { name: 'Home' }).click();
    await page.getByText('The unsaved changes of board stay in this browser.').first().waitFor();
    await page.goBack();
    await page.getByText(/^Your unsaved changes of /).waitFor();
    assert.equal(await panel(page, 'Panel a').count(), 0);
    await page.reload();
    await page.getByText(/^Your unsaved changes of /).waitFor();
    await panel(page, 'Panel b').waitFor();
    // A draft belongs to the revision that it began with.
    put(mock, board([], { title: 'Later' }));
    await page.reload();
    await button(page, 'Save').click();
    await page.getByRole('dialog', { name: 'The dashboard was changed meanwhile' }).waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    await button(page, 'Discard').click();
    await page.getByRole('heading', { name: 'Later', level: 1 }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Later', level: 1 }).waitFor();
    assert.equal(await page.getByText(/^Your unsaved changes of /).count(), 0);
  }],
  ['dashboards: the server says why it does not save', { set: { features: SAVED } }, async ({ open, mock }) => {
    put(mock, pair());
    const page = await edit(open);
    await button(page, 'Settings…').click();
    await page.getByRole('textbox', { name: 'Title' }).fill('refused');
    await button(page, 'Apply').click();
    await button(page, 'Save').click();
    await page.getByRole('alert').getByText('panel `p1`: no such stream').waitFor();
    await page.getByRole('list', { name: 'Faults' }).getByText('Panel a (/panels/0/source/text): no such stream').waitFor();
    assert.notEqual(stored(mock).title, 'refused');
  }],
  ['dashboards: a file is exported and imported as it was', { set: { features: SAVED } }, async ({ open, mock }) => {
    put(mock, pair());
    const page = await open('#/dashboards');
    const coming = page.waitForEvent('download');
    await button(page, 'Export board').click();
    const file = await (await coming).path();
    assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), pair());
    await button(page, 'Create a dashboard').click();
    const chooser = page.getByLabel('From a JSON file (optional)');
    await chooser.setInputFiles({ name: 'bad.json', mimeType: 'application/json', buffer: Buffer.from('{"version": 1, "title": "x", "panels": [5]}') });
    await button(page, 'Import the dashboard').click();
    await page.getByRole('alert').getByText('/panels/0 must be an object.').waitFor();
    await chooser.setInputFiles({ name: 'copy.json', mimeType: 'application/json', buffer: await readFile(file) });
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('a b');
    await button(page, 'Import the dashboard').click();
    await page.getByRole('alert').getByText('`a b` cannot be the name of a dashboard').waitFor();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('copy');
    await button(page, 'Import the dashboard').click();
    await panel(page, 'Panel b').waitFor();
    assert.deepEqual(stored(mock, 'copy'), pair());
  }],
  ...['light', 'dark'].flatMap((theme) => [1280, 360].map((width) => [
    `dashboards are accessible in ${theme} at ${width} px`,
    { theme, viewport: { width, height: 860 }, set: { features: SAVED } },
    async ({ open, mock, check }) => {
      put(mock, every());
      const page = await open('#/dashboards');
      const state = async (name) => {
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than the window`);
        await check(page, `${name}, ${theme}, ${width}`);
      };
      await button(page, 'Create a dashboard').click();
      await state('list');
      await page.getByRole('link', { name: 'board', exact: true }).click();
      await panel(page, 'Panel live').locator('canvas').waitFor();
      await panel(page, 'Panel metrics').scrollIntoViewIfNeeded();
      await panel(page, 'Panel metrics').locator('canvas').waitFor();
      await state('dashboard');
      await button(page, 'Edit').click();
      await state('edit mode');
      await button(page, 'Edit Panel sql').click();
      await page.getByRole('dialog').getByRole('combobox', { name: 'Show as' }).selectOption('Gauge');
      await state('form of a panel');
      await page.keyboard.press('Escape');
      await button(page, 'Settings…').click();
      await button(page, 'Add a variable').click();
      await state('settings');
      await page.keyboard.press('Escape');
      await button(page, 'Remove Panel text').click();
      put(mock, board([]));
      await button(page, 'Save').click();
      await page.getByRole('region', { name: 'Their version' }).waitFor();
      await state('conflict');
    },
  ])),
];
