// Saved queries, each as one test: [name, options, body].
import assert from 'node:assert/strict';
import { WINDOWED, button, editing, live, run, seen, textOf, until } from './steps.mjs';

const HOSTILE = '<img src=x onerror=alert(1)>\u202eevil';
const SHOWN = '<img src=x onerror=alert(1)>\\u202eevil';
const dialog = (page, name) => page.getByRole('dialog', { name, exact: typeof name === 'string' });
const field = (page, name) => page.getByRole('textbox', { name, exact: true });
const state = (page) => page.getByRole('group', { name: 'Saved query' });
const write = (page, text) => page.getByRole('textbox', { name: 'Query' }).fill(text);
const says = (page, text) => until(page, () => state(page).innerText().catch(() => ''), (now) => now === text);
const gone = (page) => page.getByRole('dialog').waitFor({ state: 'detached' });

/** Ask with `text` in its editor. */
async function asking(open, text, fragment = '#/ask') {
  const page = await open(fragment);
  await editing(page);
  await write(page, text);
  return page;
}

async function saveAs(page, name, comment = '') {
  await button(page, 'Save').click();
  const form = dialog(page, 'Save the query');
  await field(form, 'Name').fill(name);
  await field(form, 'Comment').fill(comment);
  await field(form, 'Comment').press('Enter');
  await gone(page);
}

/** A tab of `busy` that both sides have changed, in the dialog with both versions. */
async function inConflict(open, mock) {
  mock.saved.put('busy', 'SELECT 1', 'first');
  const page = await open('#/ask/saved/busy');
  await says(page, 'saved as busy');
  await editing(page);
  mock.saved.put('busy', 'SELECT theirs', 'their comment');
  await write(page, 'SELECT mine');
  await page.keyboard.press('Control+s');
  await dialog(page, 'busy was changed meanwhile').waitFor();
  return page;
}

export const savedTests = [
  ['saved: save by form, change, save again by Ctrl-S, and after a reload', {}, async ({ open, mock }) => {
    const page = await asking(open, 'SELECT 1');
    await page.keyboard.press('Control+s');
    const form = dialog(page, 'Save the query');
    await until(page, () => field(form, 'Name').evaluate((box) => box === document.activeElement), (focused) => focused);
    await field(form, 'Name').fill('busy.hours');
    await field(form, 'Comment').fill('for the morning');
    await button(form, 'Save the query').click();
    await gone(page);
    await says(page, 'saved as busy.hours');
    await page.getByRole('tab', { name: 'busy.hours' }).waitFor();
    assert.deepEqual(mock.saved.writes, [{ method: 'PUT', name: 'busy.hours', wanted: undefined, none: '*' }]);
    await write(page, 'SELECT 2');
    await says(page, 'saved as busy.hours, changed since');
    await page.keyboard.press('Control+s');
    await says(page, 'saved as busy.hours');
    assert.deepEqual(mock.saved.writes[1], { method: 'PUT', name: 'busy.hours', wanted: '"1"', none: undefined });
    const { content, comment, revision } = mock.saved.objects.get('queries/busy.hours');
    assert.deepEqual({ content, comment, revision }, { content: 'SELECT 2', comment: 'for the morning', revision: 2 });
    await button(page, 'Save').click();
    await seen(page, 'Saved as busy.hours already.');
    assert.equal(mock.saved.writes.length, 2);
    await page.waitForTimeout(700);
    await page.reload();
    await says(page, 'saved as busy.hours');
    await write(page, 'SELECT 3');
    await page.keyboard.press('Control+s');
    await until(page, () => mock.saved.writes.length, (n) => n === 3);
    assert.equal(mock.saved.writes[2].wanted, '"2"');
    assert.deepEqual(mock.asked, []);
  }],
  ['saved: a conflict shows both versions; theirs is taken', {}, async ({ open, mock }) => {
    const page = await inConflict(open, mock);
    await page.getByRole('region', { name: 'Text: Theirs' }).getByText('SELECT theirs').waitFor();
    await page.getByRole('region', { name: 'Text: Mine' }).getByText('SELECT mine').waitFor();
    await page.getByText(/changed .*2026.*revision 2, their comment/).waitFor();
    await button(page, 'Take theirs').press('Enter');
    await gone(page);
    await says(page, 'saved as busy');
    assert.equal(await textOf(page), 'SELECT theirs');
    assert.equal(mock.saved.objects.get('queries/busy').revision, 2);
    await page.getByRole('textbox', { name: 'Query' }).press('Control+z');
    assert.equal(await textOf(page), 'SELECT mine');
    await says(page, 'saved as busy, changed since');
    await write(page, 'SELECT after');
    await page.keyboard.press('Control+s');
    await says(page, 'saved as busy');
    assert.equal(mock.saved.objects.get('queries/busy').content, 'SELECT after');
  }],
  ['saved: a conflict, mine over it; if it changes again, it is shown again', {}, async ({ open, mock }) => {
    const page = await inConflict(open, mock);
    mock.saved.put('busy', 'SELECT theirs again');
    await button(page, 'Save mine over it').click();
    await page.getByRole('region', { name: 'Text: Theirs' }).getByText('SELECT theirs again').waitFor();
    await button(page, 'Save mine over it').click();
    await says(page, 'saved as busy');
    assert.equal(mock.saved.objects.get('queries/busy').content, 'SELECT mine');
    assert.equal(mock.saved.writes.at(-1).wanted, '"3"');
  }],
  ['saved: the same change twice is no conflict', {}, async ({ open, mock }) => {
    mock.saved.put('busy', 'SELECT 1');
    const page = await open('#/ask/saved/busy');
    await says(page, 'saved as busy');
    await editing(page);
    mock.saved.put('busy', 'SELECT same');
    await write(page, 'SELECT same');
    await page.keyboard.press('Control+s');
    await says(page, 'saved as busy');
    assert.equal(mock.saved.objects.get('queries/busy').revision, 2);
    assert.equal(await page.getByRole('dialog').count(), 0);
  }],
  ['saved: a conflict, mine under another name', {}, async ({ open, mock }) => {
    const page = await inConflict(open, mock);
    await button(page, 'Save mine under another name…').click();
    await field(dialog(page, 'Save the query'), 'Name').fill('busy-2');
    await page.keyboard.press('Enter');
    await says(page, 'saved as busy-2');
    assert.equal(mock.saved.objects.get('queries/busy').content, 'SELECT theirs');
    assert.equal(mock.saved.objects.get('queries/busy-2').content, 'SELECT mine');
  }],
  ['saved: a name that is taken, and a query that was deleted meanwhile', {}, async ({ open, mock }) => {
    mock.saved.put('busy', 'SELECT theirs');
    const page = await asking(open, 'SELECT mine');
    await button(page, 'Save').click();
    await field(dialog(page, 'Save the query'), 'Name').fill('busy');
    await page.keyboard.press('Enter');
    await dialog(page, 'busy exists already').getByText('SELECT theirs').waitFor();
    await page.keyboard.press('Escape');
    await gone(page);
    await saveAs(page, 'own');
    mock.saved.drop('own');
    await write(page, 'SELECT mine, too');
    await page.keyboard.press('Control+s');
    await dialog(page, 'own was deleted meanwhile').waitFor();
    await button(page, 'Save mine again').click();
    await says(page, 'saved as own');
    assert.equal(mock.saved.objects.get('queries/own').content, 'SELECT mine, too');
  }],
  ['saved: faults of the server with their places, a full server, a name that is none', {}, async ({ open, mock, check }) => {
    const page = await asking(open, 'SELECT *\nFRM STREAM(a) FRM');
    await button(page, 'Save').click();
    const form = dialog(page, 'Save the query');
    await field(form, 'Name').fill('bad');
    await page.keyboard.press('Enter');
    const faults = form.getByRole('list', { name: 'Faults' }).getByRole('listitem');
    await faults.nth(1).waitFor();
    assert.match(await faults.first().innerText(), /^Line 2, column 1: expected `,` or FROM, found `FRM`/);
    assert.match(await faults.nth(1).innerText(), /^Line 2, column 15: /);
    await check(page, 'faults of a saved query');
    await page.keyboard.press('Escape');
    await write(page, 'SELECT 1');
    await button(page, 'Save').click();
    await field(form, 'Name').fill('..');
    await page.keyboard.press('Enter');
    await form.getByRole('alert').getByText('A name cannot be . or .. alone').waitFor();
    await field(form, 'Name').fill(HOSTILE);
    await page.keyboard.press('Enter');
    await form.getByRole('alert').getByText(`\`${SHOWN}\` cannot be the name of a saved query`).waitFor();
    mock.saved.refuse = { status: 507, title: 'No room', detail: 'saved objects would need 17000000 bytes, limit is 16777216', hint: 'Delete saved objects.' };
    await field(form, 'Name').fill('good');
    await page.keyboard.press('Enter');
    await form.getByRole('alert').getByText(/limit is 16777216 Delete saved objects/).waitFor();
    mock.saved.refuse = null;
    await page.keyboard.press('Enter');
    await says(page, 'saved as good');
  }],
  ['saved: a server that holds them in memory says so', {}, async ({ open, mock }) => {
    mock.saved.kept = false;
    const page = await asking(open, 'SELECT 1');
    await saveAs(page, 'short-lived');
    await seen(page, 'Saved as short-lived. It is gone when the server ends.');
    await says(page, 'saved as short-lived, gone when the server ends');
    await button(page, 'Saved').click();
    await dialog(page, 'Saved queries').getByText('They are gone when it ends.').waitFor();
  }],
  ['saved: the list by prefix and page; open runs nothing; rename; delete asks once', {}, async ({ open, mock }) => {
    for (let i = 0; i < 60; i += 1) mock.saved.put(`q${String(i).padStart(2, '0')}`, `SELECT ${i}`, i === 1 ? HOSTILE : null);
    const page = await asking(open, 'SELECT own');
    await button(page, 'Saved').click();
    const list = dialog(page, 'Saved queries');
    await list.getByText(SHOWN).waitFor();
    assert.equal(await list.getByRole('listitem').count(), 50);
    await button(list, 'Next page').press('Enter');
    await button(list, 'Open q59').waitFor();
    await button(list, 'Previous page').click();
    await field(list, 'Name begins with').fill('q5');
    await until(page, () => list.getByRole('listitem').count(), (n) => n === 10);
    await field(list, 'Name begins with').fill('nothing');
    await list.getByText('No saved query has such a name.').waitFor();
    await field(list, 'Name begins with').fill('q0');
    await button(list, 'Open q05').click();
    await gone(page);
    await says(page, 'saved as q05');
    assert.equal(await textOf(page), 'SELECT 5');
    assert.equal(await page.getByRole('tab').count(), 2);
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Find pages, streams and questions' }).fill('action saved');
    await page.keyboard.press('Enter');
    await field(list, 'Name begins with').fill('q0');
    await button(list, 'Rename q05').click();
    await field(dialog(page, 'Rename q05'), 'New name').fill('q06');
    await page.keyboard.press('Enter');
    await page.getByText('A saved query has this name already.').waitFor();
    await field(dialog(page, 'Rename q05'), 'New name').fill('q0-renamed');
    await page.keyboard.press('Enter');
    await button(list, 'Open q0-renamed').waitFor();
    assert.equal(await button(list, 'Open q05').count(), 0);
    await button(list, 'Delete q07').click();
    await button(page, 'Back').click();
    await button(list, 'Delete q07').click();
    assert.ok(mock.saved.objects.has('queries/q07'));
    await button(page, 'Delete the saved query').click();
    await button(list, 'Open q07').waitFor({ state: 'detached' });
    assert.deepEqual(mock.saved.writes.at(-1), { method: 'DELETE', name: 'q07', wanted: '"1"', none: undefined });
    await page.keyboard.press('Escape');
    await says(page, 'saved as q0-renamed');
    assert.deepEqual(mock.asked, []);
  }],
  ['saved: a link opens a query, also from another site, and runs nothing', { set: { from: 'cross-site' } }, async ({ open, mock }) => {
    mock.saved.put('busy', WINDOWED);
    const page = await open('#/ask/saved/busy');
    await seen(page, 'This question came with a link on another site. Nothing has run.');
    assert.equal(await textOf(page), WINDOWED);
    await page.waitForTimeout(400);
    assert.deepEqual(mock.asked, []);
    await page.evaluate(() => (location.hash = '#/ask/saved/absent'));
    await dialog(page, 'Saved query absent').getByText('The server has no saved query of this name.').waitFor();
    await button(page, 'Show saved queries').click();
    await button(page, 'Open busy').click();
    await gone(page);
    assert.equal(await page.getByRole('tab').count(), 1);
    await button(page, 'Run').click();
    await live(page);
  }],
  ['saved: Home shows those that changed last, and opens them', {}, async ({ open, mock }) => {
    for (const name of ['z', 'a', 'm']) mock.saved.put(name, `SELECT ${name}`);
    const page = await open();
    const panel = page.getByRole('region', { name: 'Saved queries' });
    await until(page, () => panel.getByRole('listitem').allInnerTexts(), (names) => names.map((one) => one[0]).join('') === 'maz');
    await button(panel, /^a/).click();
    await says(page, 'saved as a');
    assert.deepEqual(mock.asked, []);
  }],
  ['saved: a read-only console opens and changes nothing', { set: { mode: 'read_only' } }, async ({ open, mock }) => {
    mock.saved.put('busy', 'SELECT 1');
    const page = await open('#/ask/saved/busy');
    await says(page, 'saved as busy');
    assert.equal(await button(page, /^Save( as…)?$/).count(), 0);
    await page.keyboard.press('Control+s');
    await button(page, 'Saved').click();
    await button(page, 'Open busy').waitFor();
    assert.equal(await button(page, /Rename|Delete/).count(), 0);
    assert.deepEqual(mock.saved.writes, []);
  }],
  ['saved: a server without them offers none', { set: { features: ['sql', 'views'] } }, async ({ open, mock }) => {
    const page = await asking(open, 'SELECT 1');
    assert.equal(await button(page, /^Save/).count(), 0);
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Find pages, streams and questions' }).fill('saved');
    await page.getByText('Nothing has this name.').waitFor();
    assert.equal(mock.requests.filter((request) => request.includes('v1/saved')).length, 0);
  }],
  ...[['light', 1280], ['dark', 1280], ['light', 360], ['dark', 360]].map(([theme, width]) => [
    `saved: accessible in ${theme} at ${width} px`, { theme, viewport: { width, height: 860 } }, async ({ open, mock, check, pictures }) => {
      const at = async (page, name) => {
        if (pictures !== null) await page.screenshot({ path: `${pictures}/saved-${name}-${theme}-${width}.png`, fullPage: true });
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than the window`);
        const small = await page.evaluate(() => [...document.querySelectorAll('dialog button, [aria-label="Question"] button')].filter((one) => one.getBoundingClientRect().height > 0 && one.getBoundingClientRect().height < 24).map((one) => one.textContent));
        assert.deepEqual(small, [], `${name}: targets below 24 px`);
        await check(page, `${name}, ${theme}, ${width}`);
      };
      mock.saved.put('other', 'SELECT 2', HOSTILE);
      const page = await inConflict(open, mock);
      await at(page, 'versions');
      await button(page, 'Save mine under another name…').click();
      await at(page, 'form');
      await page.keyboard.press('Escape');
      await at(page, 'ask');
      await button(page, 'Saved').click();
      await button(page, 'Open other').waitFor();
      await at(page, 'list');
      await button(page, 'Delete other').click();
      await at(page, 'delete');
      await button(page, 'Back').click();
      await button(page, 'Rename other').click();
      await at(page, 'rename');
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      await run(page, WINDOWED);
      await live(page);
      await button(page, 'Keep').click();
      await button(page, /^Into sink/).waitFor();
      await at(page, 'keep');
      await page.getByRole('link', { name: 'Home' }).click();
      await page.getByRole('region', { name: 'Saved queries' }).waitFor();
      await at(page, 'home');
      await page.evaluate(() => (location.hash = '#/s/unknown'));
      await page.getByRole('alert').waitFor();
      await at(page, 'link');
    },
  ]),
];
