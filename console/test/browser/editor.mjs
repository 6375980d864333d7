// The editor, its completions and faults, typed columns and links, as a reader uses them. Same form as tests.mjs.
import assert from 'node:assert/strict';
import { button, editing, live, options, query, run, seen, start, status, textOf, until } from './steps.mjs';

const FIRST = 'SELECT carrier, COUNT(*) AS n FROM STREAM(flights, MAX, TIME)';
const focused = (page) => page.evaluate(() => document.activeElement?.className ?? '');
const underlined = (page, kind = 'error') => page.locator(`.cm-lintRange-${kind}`).allInnerTexts();

export const editorTests = [
  ['completions by keyboard: a word, a bracket, a value in quotes', {}, async ({ open, mock }) => {
    const page = await start(open);
    await page.keyboard.type('SELECT co');
    await options(page).filter({ hasText: 'COUNT' }).first().waitFor();
    assert.equal(await options(page).first().getAttribute('aria-selected'), 'true');
    await page.waitForTimeout(100);
    await page.keyboard.press('Tab');
    assert.equal(await textOf(page), 'SELECT COUNT()');
    await page.keyboard.type('*');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.type(" FROM STREAM(flights) WHERE '😀' = carrier AND carrier = 'u");
    await options(page).filter({ hasText: 'UA' }).waitFor();
    await page.waitForTimeout(100);
    await page.keyboard.press('Enter');
    assert.equal(await textOf(page), "SELECT COUNT(*) FROM STREAM(flights) WHERE '😀' = carrier AND carrier = 'UA'");
    const last = mock.completed.at(-1);
    assert.equal([...last.text].slice(0, last.cursor).at(-1), 'u');
    assert.equal(last.dialect, 'native');
  }],
  ['a longer word needs no new request, and Escape and Tab leave', {}, async ({ open, mock }) => {
    const page = await start(open);
    await page.keyboard.type('ca');
    await options(page).filter({ hasText: 'carrier' }).waitFor();
    const asked = mock.completed.length;
    await page.keyboard.type('rr');
    await until(page, () => options(page).count(), (count) => count === 1);
    assert.equal(mock.completed.length, asked);
    await page.keyboard.press('Escape');
    await options(page).first().waitFor({ state: 'detached' });
    assert.equal(await focused(page), 'cm-content cm-lineWrapping');
    await page.keyboard.press('Tab');
    assert.notEqual(await focused(page), 'cm-content cm-lineWrapping');
    assert.equal(await textOf(page), 'carr');
    await page.getByRole('textbox', { name: 'Query' }).click();
    await page.keyboard.press('Control+Space');
    await options(page).filter({ hasText: 'carrier' }).click();
    assert.equal(await textOf(page), 'carrier');
    await page.keyboard.press('Control+z');
    assert.equal(await textOf(page), 'carr');
    // Single letters are text while the reader types.
    await page.keyboard.type('? /');
    assert.equal(await page.getByRole('dialog').count(), 0);
    assert.equal(await textOf(page), 'carr? /');
  }],
  ['hostile labels are text, and what is inserted is exact', {}, async ({ open }) => {
    const page = await start(open);
    await page.keyboard.type('h<');
    await page.keyboard.press('Backspace');
    await page.keyboard.press('Control+Space');
    const option = options(page).filter({ hasText: 'h<img' });
    await option.waitFor();
    assert.ok((await option.innerText()).includes('h<img src=x onerror=alert(1)>\\u202e\\u0000'));
    await options(page).filter({ hasText: 'hnothing' }).waitFor();
    await until(page, () => page.locator('.cm-completionInfo').innerText().catch(() => ''), (text) => text.includes('<script>'));
    await option.click();
    assert.equal((await page.evaluate(() => document.querySelectorAll('#app img:not(.cm-widgetBuffer), #app script').length)), 0);
    assert.equal(await page.evaluate(() => 'hacked' in window), false);
    // The editor shows the character that turns the direction; its text has it.
    await page.waitForTimeout(500);
    await page.keyboard.press('Control+Enter');
    await status(page).waitFor();
    assert.equal(await page.locator('.cm-specialChar').count(), 1);
  }],
  ['text that is typed over, and lines that the browser deletes, take no colours along', {}, async ({ open }) => {
    const page = await start(open);
    await page.keyboard.insertText("SELECT 'a',\n  COUNT(*)\nFROM STREAM(x)");
    const select = (keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
    await select(['Control+Home', 'ArrowRight', 'Shift+ArrowDown']);
    // As the browser's own menu does it.
    const done = await page.evaluate(() => document.activeElement.dispatchEvent(new InputEvent('beforeinput', { inputType: 'deleteContentBackward', bubbles: true, cancelable: true })));
    assert.equal(done, false, 'the browser would delete');
    assert.equal(await textOf(page), 'S COUNT(*)\nFROM STREAM(x)');
    await select(['Control+Home', 'Shift+ArrowDown']);
    await page.keyboard.type('t');
    assert.equal(await textOf(page), 'tFROM STREAM(x)');
    await select(['Shift+End']);
    await page.keyboard.type('(');
    assert.equal(await textOf(page), 't(FROM STREAM(x))');
    await page.keyboard.press('Control+z');
    await select(['Control+a']);
    await page.keyboard.type('end');
    assert.equal(await textOf(page), 'end');
    // The run fails on any violation of the policy.
    assert.equal(await page.locator('.cm-content [style]').count(), 0);
  }],
  ['a comment that ends with a carriage return does not hide what runs', {}, async ({ open }) => {
    const page = await start(open, query('SELECT a -- b\rFROM STREAM(x)'));
    await until(page, () => page.locator('.tok-keyword').allInnerTexts(), (found) => found.join(' ') === 'SELECT FROM STREAM');
    assert.equal(await page.locator('.cm-specialChar').count(), 1);
  }],
  ['an older server: no completions, no help, no fault', { set: { assistance: false } }, async ({ open, mock }) => {
    const page = await start(open);
    const asked = () => mock.requests.filter((request) => request === 'POST v1/complete').length;
    await page.keyboard.type('SELECT c');
    await until(page, asked, (count) => count > 0);
    await page.waitForTimeout(300);
    const before = asked();
    await page.keyboard.type('a, d');
    await page.waitForTimeout(400);
    assert.equal(await page.getByRole('listbox').count(), 0);
    assert.equal(asked(), before);
  }],
  ['faults are underlined at their characters, all of them, with message and hint', {}, async ({ open }) => {
    const page = await start(open);
    await page.keyboard.type("SELECT '😀😀' FRM s BETWEN 1");
    await until(page, () => underlined(page), (found) => JSON.stringify(found) === '["FRM","BETWEN"]');
    await button(page, 'Line 1, column 13').waitFor();
    await button(page, 'Line 1, column 19').click();
    await until(page, () => page.evaluate(() => getSelection().toString()), (marked) => marked === 'BETWEN');
    await page.locator('.cm-lintRange-error').first().hover();
    await page.locator('.cm-tooltip-hover').getByText('Did you mean FROM rather than `FRM`?').waitFor();
    assert.equal(await page.getByRole('textbox', { name: 'Query' }).getAttribute('aria-invalid'), 'true');
    await run(page, "SELECT '😀'\nFROM STREAM(flights) WHERE '😀' = hots");
    await until(page, () => underlined(page, 'warning'), (found) => JSON.stringify(found) === '["hots"]');
    await seen(page, 'no recent event has the field `hots`');
    assert.deepEqual(await underlined(page), []);
    assert.equal(await page.getByRole('textbox', { name: 'Query' }).getAttribute('aria-invalid'), 'false');
  }],
  ['the function at the cursor and under the pointer shows its signature', {}, async ({ open }) => {
    const page = await start(open);
    await page.keyboard.type('SELECT AVG(x) FROM STREAM(flights)');
    await page.keyboard.press('Home');
    for (let i = 0; i < 8; i += 1) await page.keyboard.press('ArrowRight');
    await page.locator('.function-line').getByText('The average of the values.').waitFor();
    await page.mouse.move(5, 5);
    await page.locator('.tok-call').hover();
    await page.locator('.function-help').getByText('AVG(value) → DOUBLE').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.function-help').waitFor({ state: 'detached' });
  }],
  ['without its file the field stays and works', { set: { editorMissing: true } }, async ({ open, mock }) => {
    const page = await open('#/ask');
    await until(page, () => mock.requests.some((request) => request.endsWith('/editor.js')), (asked) => asked);
    await page.locator('textarea').fill('SELECT *\nFRM s');
    await button(page, 'Line 2, column 1').click();
    assert.equal(await page.evaluate(() => document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)), 'FRM');
    await run(page, FIRST);
    await live(page);
    assert.equal(await page.locator('.cm-editor').count(), 0);
  }],
  ['a text typed before the editor is there, its selection and its focus are taken over', {}, async ({ open, context }) => {
    let release;
    const held = new Promise((resolve) => (release = resolve));
    await context.route('**/editor.js', async (route) => {
      await held;
      await route.continue();
    });
    const page = await open('#/ask');
    await page.locator('textarea').click();
    await page.keyboard.type('SELECT * FRO');
    await page.keyboard.press('ArrowLeft');
    release();
    await editing(page);
    await page.keyboard.type('X');
    assert.equal(await textOf(page), 'SELECT * FRXO');
    await button(page, 'New question').click();
    await page.getByRole('textbox', { name: 'Query' }).fill('SELECT 2');
    await page.getByRole('tab').first().click();
    await editing(page);
    assert.equal(await textOf(page), 'SELECT * FRXO');
    await page.getByRole('textbox', { name: 'Query' }).focus();
    await page.keyboard.press('Control+z');
    assert.equal(await textOf(page), 'SELECT * FRO');
  }],
  ['a text of 1 MiB does not freeze the page', { alone: true }, async ({ open }) => {
    const page = await start(open);
    const watched = () => page.evaluate(() => {
      window.longest = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((entry) => (window.longest = Math.max(window.longest, entry.duration)))).observe({ type: 'longtask' });
    });
    for (const text of ["a = 'some text' OR\n".repeat(58_000), `SELECT '${'x '.repeat(1 << 19)}'`]) {
      await page.keyboard.press('Control+a');
      await watched();
      await page.evaluate((long) => {
        const data = new DataTransfer();
        data.setData('text/plain', long);
        document.querySelector('.cm-content').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
      }, text);
      await page.waitForTimeout(2500);
      await page.keyboard.press('Control+End');
      for (const letter of 'typed') await page.keyboard.type(letter, { delay: 50 });
      await page.waitForTimeout(1500);
      const longest = await page.evaluate(() => window.longest);
      // About 150 ms on two cores; other programs make a task look longer.
      assert.ok(longest <= 500, `a task of ${longest} ms`);
    }
  }],
  ['typed columns: types in the head, numbers right, times in the zone, raw when copied', { alone: true }, async ({ open }) => {
    const page = await start(open);
    await page.keyboard.insertText('SELECT at, id, share FROM STREAM(typed, MAX, TIME)');
    await seen(page, 'Valid: at TIMESTAMP, id LONG, <b>name STRING, share DOUBLE.');
    await page.keyboard.press('Control+Enter');
    await status(page).getByText(/Ended/).waitFor();
    await button(page, 'Table').click();
    await page.getByRole('columnheader', { name: 'at TIMESTAMP' }).waitFor();
    await page.getByRole('columnheader', { name: '<b>name STRING' }).waitFor();
    const cell = page.getByRole('grid').getByRole('row').nth(1).getByRole('gridcell');
    await until(page, () => cell.first().innerText(), (text) => text === '2026-11-30 13:00:02.000 CET');
    for (const index of [1, 3]) assert.equal(await cell.nth(index).evaluate((one) => getComputedStyle(one).textAlign), 'right');
    await page.getByRole('grid').focus();
    await page.keyboard.press('Control+c');
    await until(page, () => page.evaluate(() => navigator.clipboard.readText()), (text) => text === String(Date.UTC(2026, 10, 30, 12, 0, 2)));
  }],
  ['a copied link gives another browser the same', { alone: true }, async ({ open, context, mock }) => {
    const page = await start(open, `${query('SELECT carrier, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) WHERE a = $1 AND b = $2 GROUP BY carrier WINDOWING TUMBLING(250, TIME)')}&p=5&p=a%20b&dialect=bullet`);
    await button(page, 'Run').click();
    await live(page);
    await button(page, 'Bars').click();
    await button(page, 'Share').click();
    await button(page, 'Copy link').click();
    const link = await until(page, () => page.evaluate(() => navigator.clipboard.readText()), (text) => text.includes('#/ask?q='));
    const elsewhere = await context.browser().newContext({ timezoneId: 'Asia/Tokyo', locale: 'en-GB', viewport: { width: 1280, height: 860 } });
    const other = await elsewhere.newPage();
    await other.goto(link);
    await seen(other, 'This question came with a link. Nothing has run.');
    await editing(other);
    assert.equal(await textOf(other), await textOf(page));
    assert.equal(await other.getByRole('textbox', { name: '$1' }).inputValue(), '5');
    assert.equal(await other.getByRole('textbox', { name: '$2' }).inputValue(), 'a b');
    assert.equal(await other.getByRole('combobox', { name: 'Dialect' }).inputValue(), 'bullet');
    assert.equal(mock.asked.length, 1);
    await button(other, 'Run').click();
    await live(other);
    assert.equal(await button(other, 'Bars').getAttribute('aria-pressed'), 'true');
    await until(other, () => other.locator('.window-time').innerText(), (text) => /CET/.test(text));
    await elsewhere.close();
  }],
  ...[['light', 1280], ['dark', 1280], ['light', 360], ['dark', 360]].map(([theme, width]) => [
    `the editor is accessible in ${theme} at ${width} px`, { theme, viewport: { width, height: 860 } }, async ({ open, check, pictures }) => {
      const page = await start(open);
      const state = async (name) => {
        if (pictures !== null) await page.screenshot({ path: `${pictures}/${name}-${theme}-${width}.png`, fullPage: true });
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than the window`);
        await check(page, `${name}, ${theme}, ${width}`);
      };
      await page.keyboard.insertText("/* all */ SELECT \"a b\", AVG(x), 5.5, 'it''s', $1 -- end\nFROM STREAM(flights) WHERE hots = 1 AND ");
      await page.keyboard.type('c');
      await options(page).filter({ hasText: 'carrier' }).waitFor();
      await page.locator('.cm-completionInfo').waitFor();
      await page.locator('.cm-lintRange-warning').waitFor();
      await state('completion');
      await page.keyboard.press('Escape');
      await page.keyboard.press('Control+End');
      await page.keyboard.type(' FRM 1 BETWEN ');
      await page.keyboard.press('Escape');
      await until(page, () => underlined(page), (found) => found.length === 2);
      await state('faults');
      await page.getByRole('textbox', { name: 'Query' }).fill('{"filters": [{"field": "a", "values": ["b", 5, true]}]}');
      await page.waitForTimeout(400);
      await state('json form');
    },
  ]),
];
