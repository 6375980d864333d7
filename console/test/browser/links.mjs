// Short links, each as one test: [name, options, body]. They use the clipboard, so most run alone.
import assert from 'node:assert/strict';
import { button, editing, query, run, seen, status, textOf, until } from './steps.mjs';

const LONG = `SELECT * FROM STREAM(flights, MAX, TIME) WHERE note = '${'x'.repeat(2100)}' LIMIT 1`;
const copied = (page, good) => until(page, () => page.evaluate(() => navigator.clipboard.readText()), good);

/** Runs `text` and copies the link to it. */
async function share(open, text) {
  const page = await open('#/ask');
  await editing(page);
  await run(page, text);
  await status(page).waitFor();
  await button(page, 'Share').click();
  await button(page, 'Copy link').click();
  return page;
}

export const linkTests = [
  ['links: a long one is short, and opens in another browser without running', { alone: true }, async ({ open, mock, context }) => {
    const page = await share(open, LONG);
    await seen(page, 'Short link copied.');
    const link = await copied(page, (text) => text.includes('#/s/'));
    assert.match(link, /#\/s\/[\w-]{10}$/);
    assert.ok(mock.saved.links.get(link.slice(-10)).startsWith('#/ask?q='));
    const asked = mock.asked.length;
    const other = await context.browser().newContext();
    try {
      const there = await other.newPage();
      there.setDefaultTimeout(5000);
      await there.goto(link);
      await seen(there, 'This question came with a link. Nothing has run.');
      assert.equal(await textOf(there), LONG);
      assert.match(there.url(), /#\/ask$/);
      await there.waitForTimeout(300);
      assert.equal(mock.asked.length, asked);
      await button(there, 'Run').click();
      await status(there).getByText(/Ended/).waitFor();
    } finally {
      await other.close();
    }
  }],
  ['links: one within 2,000 characters stays as it is', { alone: true }, async ({ open, mock }) => {
    const page = await share(open, 'SELECT * FROM STREAM(flights, MAX, TIME) LIMIT 1');
    await copied(page, (text) => text.includes('#/ask?q='));
    await seen(page, 'Link copied.');
    assert.equal(mock.saved.links.size, 0);
  }],
  ['links: without the feature, on an error and read-only the full one is copied with the reason', { alone: true, set: { features: ['sql'] } }, async ({ open, mock }) => {
    let page = await share(open, LONG);
    await seen(page, 'Full link copied. This server makes no short links.');
    await copied(page, (text) => text.includes(LONG.slice(0, 6)) && text.includes('#/ask?q='));
    await page.close();
    mock.features.push('saved');
    page = await share(open, `${LONG} -- ${'y'.repeat(70_000)}`);
    await seen(page, /Full link copied\. The server made no short link: a state has at most 65,536 bytes/);
    await page.close();
    mock.mode = 'read_only';
    page = await share(open, LONG);
    await seen(page, /Full link copied\. This console is read-only/);
    assert.equal(mock.saved.links.size, 0);
  }],
  ['links: from another site a short one runs nothing; a search waits, too', { set: { from: 'cross-site' } }, async ({ open, mock }) => {
    mock.saved.links.set('abc', query('SELECT * FROM STREAM(flights, MAX, TIME)'));
    const page = await open('#/s/abc');
    await seen(page, 'This question came with a link on another site. Nothing has run.');
    await page.waitForTimeout(300);
    assert.deepEqual(mock.asked, []);
    mock.saved.links.set('search', '#/search?stream=flights&q=delay');
    const other = await open('#/s/search');
    await other.getByRole('heading', { name: 'Search', level: 1 }).waitFor();
    assert.match(other.url(), /#\/search\?stream=flights&q=delay$/);
    await other.waitForTimeout(300);
    assert.equal(mock.requests.filter((request) => /v1\/search(\/|$)/.test(request)).length, 0);
  }],
  ['links: an expired key and a circle say so with what to do; a silent server is tried again', {}, async ({ open, mock, context }) => {
    const page = await open('#/s/%3Cimg%20src=x%3E');
    const dialog = page.getByRole('dialog', { name: 'The short link cannot be opened' });
    await dialog.getByText('<img src=x>').waitFor();
    await dialog.getByText(/deleted when nobody opens it for 90 days.*Ask the sender/).waitFor();
    await page.keyboard.press('Escape');
    mock.saved.links.set('a', '#/s/a');
    await page.evaluate(() => (location.hash = '#/s/a'));
    await dialog.getByText('Ask the sender').waitFor();
    await page.keyboard.press('Escape');
    mock.saved.links.set('b', '#/streams');
    await context.route('**/v1/saved/links/b', (route) => route.abort(), { times: 1 });
    await page.evaluate(() => (location.hash = '#/s/b'));
    await dialog.getByText('The server does not answer.').waitFor();
    await button(page, 'Try again').click();
    await page.getByRole('heading', { name: 'Streams', level: 1 }).waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
  }],
];
