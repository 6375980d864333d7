// Steps and places that the tests of the page share.
import assert from 'node:assert/strict';

export const WINDOWED = 'SELECT carrier, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) GROUP BY carrier WINDOWING TUMBLING(250, TIME)';
export const query = (text) => `#/ask?q=${encodeURIComponent(text)}`;
export const button = (page, name, exact = true) => page.getByRole('button', { name, exact });
export const status = (page) => page.getByRole('group', { name: 'State of the result' });
export const live = (page) => status(page).getByText('Live', { exact: true }).waitFor();
export const seen = (page, text) => page.getByText(text).first().waitFor();

/** Polls until `read` gives a value that `good` accepts; the page has no event for what it draws. */
export async function until(page, read, good) {
  const end = Date.now() + 5000;
  for (;;) {
    const value = await read();
    if (good(value)) return value;
    if (Date.now() > end) assert.fail(`not reached: ${JSON.stringify(value)}`);
    await page.waitForTimeout(25);
  }
}

export async function run(page, text) {
  await page.getByRole('textbox', { name: 'Query' }).fill(text);
  await page.keyboard.press('Control+Enter');
}

/** The text of the query, from the editor or, before it is loaded, from the field. */
export const textOf = (page) =>
  page.getByRole('textbox', { name: 'Query' }).evaluate((box) => ('value' in box ? box.value : [...box.querySelectorAll('.cm-line')].map((line) => (line.querySelector('.cm-placeholder') === null ? line.textContent : '')).join('\n')));
/** The editor, once it has taken the place of the field. */
export const editor = (page) => page.locator('.cm-content');
export const editing = async (page) => {
  await editor(page).waitFor();
  await page.locator('textarea').waitFor({ state: 'detached' });
};
export const options = (page) => page.getByRole('listbox').getByRole('option');

/** Opens the page Ask with the focus in its editor. */
export async function start(open, fragment = '#/ask', init) {
  const page = await open(fragment, init);
  await editing(page);
  await page.getByRole('textbox', { name: 'Query' }).click();
  return page;
}
