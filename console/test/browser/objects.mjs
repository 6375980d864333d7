// The pages of streams, views and jobs, each as one test: [name, options, body].
import assert from 'node:assert/strict';

const button = (page, name, exact = true) => page.getByRole('button', { name, exact });
const nav = (page, name) => page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true });

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
  ['pages: their file that cannot be loaded is tried again', {}, async ({ open, context }) => {
    await context.route('**/pages.js', (route) => route.abort());
    const page = await open('#/streams');
    await page.getByText('This page cannot be loaded now').waitFor();
    await button(page, 'Try again').click();
    await page.getByRole('heading', { name: 'Streams', level: 1 }).waitFor();
    await button(page, 'Try again').waitFor({ state: 'detached' });
  }],
];
