// The fields beside the editor, as a reader uses them. Same form as tests.mjs.
import assert from 'node:assert/strict';
import { button, query, seen, start, textOf } from './steps.mjs';

const FIRST = 'SELECT carrier, COUNT(*) AS n FROM STREAM(flights, MAX, TIME)';
const fields = (page) => page.getByRole('complementary', { name: 'Fields' });

export const fieldsTests = [
  ['fields: values become conditions, and clicks ask new questions', {}, async ({ open, mock }) => {
    const page = await start(open, query(`${FIRST} WHERE a = 1 OR b = 2 GROUP BY carrier`));
    await fields(page).getByRole('heading', { name: 'Fields of flights' }).waitFor();
    await fields(page).getByRole('button', { name: /^carrier/ }).click();
    await fields(page).getByRole('list', { name: 'Most frequent values of carrier' }).getByRole('button').first().click();
    assert.equal(await textOf(page), `${FIRST} WHERE (a = 1 OR b = 2) AND carrier = 'UA' GROUP BY carrier`);
    assert.deepEqual(mock.asked, []);
    await page.getByRole('textbox', { name: 'Query' }).focus();
    await page.keyboard.press('Control+z');
    assert.equal(await textOf(page), `${FIRST} WHERE a = 1 OR b = 2 GROUP BY carrier`);
    const hostile = fields(page).getByRole('button', { name: /ostile/ });
    assert.ok((await hostile.innerText()).includes('h<b>\\u202eostile'));
    await hostile.click();
    const values = fields(page).getByRole('list', { name: /ostile/ }).getByRole('button');
    assert.equal(await values.nth(1).isDisabled(), true);
    await page.getByRole('textbox', { name: 'Query' }).fill('SELECT * FROM STREAM(flights) JOIN t ON a = b');
    await values.first().click();
    await seen(page, /no certain place for a condition/);
    assert.equal(await page.getByRole('tab').count(), 2);
    assert.deepEqual(mock.asked, []);
    await fields(page).getByRole('button', { name: /^dep_delay/ }).click();
    await fields(page).getByRole('button', { name: 'Chart', exact: true }).click();
    await page.getByRole('group', { name: /^Chart: Distribution by Range/ }).waitFor();
    await fields(page).getByRole('button', { name: /^carrier/ }).click();
    await fields(page).getByRole('button', { name: 'Count by' }).click();
    await page.getByRole('group', { name: /^Chart: n by carrier/ }).waitFor();
    assert.deepEqual(mock.asked.map((text) => text.split('\n')[0]), ['SELECT FREQ(dep_delay, LINEAR, 12)', 'SELECT carrier, COUNT(*) AS n']);
    await fields(page).getByRole('button', { name: 'Close the fields' }).click();
    await page.reload();
    await fields(page).getByRole('button', { name: 'Fields', exact: true }).waitFor();
  }],
  ['fields of the default stream, found by name, and a number that is averaged', {}, async ({ open, mock }) => {
    const page = await start(open);
    await fields(page).getByRole('heading', { name: 'Fields of flights' }).waitFor();
    await fields(page).getByRole('searchbox', { name: 'Find a field' }).fill('delay');
    await fields(page).getByRole('button', { name: /^dep_delay integer 99 %/ }).click();
    await fields(page).getByRole('button', { name: 'Average' }).click();
    await page.getByRole('group', { name: /^average: / }).waitFor();
    await fields(page).getByRole('button', { name: /^dep_delay/ }).waitFor();
    assert.match(mock.asked[0], /^SELECT AVG\(dep_delay\) AS average/);
    await button(page, 'New question').click();
    await fields(page).getByRole('button', { name: /^carrier/ }).click();
    await fields(page).getByRole('button', { name: /^UA/ }).click();
    assert.equal(await textOf(page), "SELECT *\nFROM STREAM(flights, MAX, TIME)\nWHERE carrier = 'UA'");
    assert.equal(mock.asked.length, 1);
  }],
  ...[['light', 1280], ['dark', 1280], ['light', 360], ['dark', 360]].map(([theme, width]) => [
    `fields are accessible in ${theme} at ${width} px`, { theme, viewport: { width, height: 860 } }, async ({ open, check, pictures }) => {
      const page = await start(open);
      if (width === 360) {
        assert.equal(await fields(page).getByRole('heading').count(), 0);
        await fields(page).getByRole('button', { name: 'Fields', exact: true }).click();
      }
      await fields(page).getByRole('button', { name: /^dep_delay/ }).click();
      await fields(page).getByRole('button', { name: /ostile/ }).click();
      if (pictures !== null) await page.screenshot({ path: `${pictures}/fields-${theme}-${width}.png`, fullPage: true });
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'wider than the window');
      await check(page, `fields, ${theme}, ${width}`);
    },
  ]),
];
