import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { exampleQuestions, quoteName, quotePath, readPaths } from '../src/examples.ts';
import { copyAs, exportRows, shellWord } from '../src/export.ts';
import { FORMS, PAGES, type State, readFragment, writeFragment } from '../src/fragment.ts';
import { parseJson } from '../src/json.ts';
import { parameterCount, readParameter } from '../src/parameters.ts';
import { MemoryStore } from '../src/store.ts';

const text = fc.string({ unit: 'grapheme' });

test('a state read from its own fragment is the same state', () => {
  const state = fc.record(
    { page: fc.constant('ask' as const), text, dialect: fc.constantFrom('native' as const, 'bullet' as const), parameters: fc.array(text, { minLength: 1, maxLength: 5 }), form: fc.constantFrom(...FORMS), measure: text, zone: fc.constantFrom('UTC', 'Europe/Berlin') },
    { requiredKeys: ['page'] },
  );
  fc.assert(
    fc.property(state, (given) => {
      const expected: State = { ...given };
      if (expected.dialect === 'native') delete expected.dialect;
      assert.deepEqual(readFragment(writeFragment(given)), expected);
    }),
  );
});

test('a page and the name of its object come back from their link', () => {
  fc.assert(
    fc.property(fc.constantFrom(...PAGES.filter((page) => page !== 'home' && page !== 'ask')), fc.oneof(text, fc.constantFrom('.', '..', 'a/b', '%2F', '#?&=', 'a b+c', '__proto__')), (page, object) => {
      const given: State = object === '' ? { page } : { page, object };
      assert.deepEqual(readFragment(writeFragment(given)), given);
    }),
  );
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (rest) => {
      assert.ok(PAGES.includes(readFragment(`#/streams/${rest}`).page));
      assert.ok(PAGES.includes(readFragment(`#/${rest}`).page));
    }),
  );
  assert.equal(writeFragment({ page: 'views', object: 'a b/c' }), '#/views/a%20b%2Fc');
});

test('any fragment gives a valid state', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (fragment) => {
      const state = readFragment(`#/ask?${fragment}`);
      assert.equal(state.page, 'ask');
      if (state.form !== undefined) assert.ok(FORMS.includes(state.form));
    }),
  );
  assert.deepEqual(readFragment('#/nowhere'), { page: 'home' });
  assert.deepEqual(readFragment('#/ask?zone=Mars/Olympus&form=pie'), { page: 'ask' });
});

test('the shell reads a word back as it was', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }).filter((word) => !word.includes('\0')), (word) => {
      assert.equal(execFileSync('sh', ['-c', `printf %s ${shellWord(word)}`]).toString(), word);
    }),
    { numRuns: 30 },
  );
});

test('a question is copied as curl, command line and Python', () => {
  const question = { text: "SELECT 'a' FROM STREAM(s)", parameters: ['5', 7, null], dialect: 'native' as const };
  assert.equal(
    copyAs('curl', 'http://h', question),
    `curl -fsSN 'http://h/v1/queries' -H 'accept: application/x-ndjson' -H 'content-type: application/json' --data-binary '{"query":"SELECT '\\''a'\\'' FROM STREAM(s)","parameters":["5",7,null]}'`,
  );
  assert.equal(copyAs('cli', 'http://h', question), `swiftwater query --server 'http://h' -p '"5"' -p '7' -p 'null' 'SELECT '\\''a'\\'' FROM STREAM(s)'`);
  assert.match(copyAs('python', 'http://h', question), /"http:\/\/h\/v1\/queries"/);
});

/** A reader of CSV by RFC 4180. */
function readCsv(csv: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (let i = 0; i < csv.length; ) {
    let cell = '';
    if (csv[i] === '"') {
      for (i += 1; csv[i] !== '"' || csv[i + 1] === '"'; i += 1) {
        cell += csv[i];
        if (csv[i] === '"') i += 1;
      }
      i += 1;
    } else while (csv[i] !== ',' && csv[i] !== '\r') cell += csv[i++];
    row.push(cell);
    if (csv[i] === ',') i += 1;
    else {
      i += 2;
      rows.push(row);
      row = [];
    }
  }
  return rows;
}

test('CSV is read back, and no cell of text begins a formula', () => {
  const cell = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('=1+1', '@x', '-cmd', '+a', '\tx', 'a"b', 'a,b', 'a\r\nb'));
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell), { minLength: 1 }), (pairs) => {
      const csv = exportRows(pairs.map(([a, b]) => ({ a, b })), ['a', 'b'], 'csv').join('');
      const [head, ...rows] = readCsv(csv);
      assert.deepEqual(head, ['a', 'b']);
      rows.forEach((row, i) => {
        row.forEach((found, j) => {
          const given = pairs[i]?.[j] ?? '';
          assert.equal(found.replace(/^'/, ''), given.replace(/^'/, ''));
          assert.doesNotMatch(found, /^[=+\-@\t\r]/);
        });
      });
    }),
  );
});

test('JSON and NDJSON keep big numbers and odd names; a number is no formula', () => {
  const row = parseJson('{"n":-12345678901234567890,"__proto__":1,"x":-5}') as { [name: string]: never };
  assert.equal(exportRows([row], ['n', '__proto__', 'x'], 'ndjson').join(''), '{"n":-12345678901234567890,"__proto__":1,"x":-5}\n');
  assert.equal(exportRows([row], ['n', 'x'], 'csv').join(''), 'n,x\r\n-12345678901234567890,-5\r\n');
  assert.deepEqual(JSON.parse(exportRows([{ a: 1 }, { a: 2 }], ['a'], 'json').join('')), [{ a: 1 }, { a: 2 }]);
  assert.equal(exportRows([{ a: 'x\ty\n', b: '=1' }], ['a', 'b'], 'tsv').join(''), "a\tb\nx y \t'=1\n");
});

test('placeholders are counted outside of texts, names and comments', () => {
  assert.equal(parameterCount(`SELECT '$9', "$8" FROM s WHERE a = $2 -- $7\n AND b > $1`), 2);
  assert.equal(parameterCount('SELECT 1'), 0);
  assert.equal(parameterCount('$9999'), 64);
});

test('a typed parameter is a number, a truth value, null, or text', () => {
  assert.deepEqual(['5', '-1.5e2', 'true', 'null', 'abc', '"5"', ' x', '9007199254740993', '01', ''].map(readParameter), [5, -150, true, null, 'abc', '5', ' x', 9007199254740993n, '01', '']);
});

test('names are quoted where BQL needs it', () => {
  assert.deepEqual(['carrier', 'order', 'my-stream', 'a"b', '1x'].map(quoteName), ['carrier', '"order"', '"my-stream"', '"a""b"', '"1x"']);
  assert.equal(quotePath("dest.na'me.x"), "dest['na''me'].x");
  assert.equal(quotePath('"time"'), '"time"');
});

test('examples are made from the paths: a category, a number, two keys, the top, a filter', () => {
  const path = (name: string, type: string, distinct: number, top: unknown) => ({ path: name, types: { [type]: 1 }, distinct, top: [{ value: top, share: 1 / distinct }] });
  const given = [path('"time"', 'string', 200, '2026-01-01T00:00:00Z'), path('tail', 'string', 900, 'N1'), path('name', 'string', 14, 'Ohm'), path('carrier', 'string', 14, "O'H"), path('dest', 'string', 100, 'ATL'), path('flight', 'integer', 950, 7), path('delay', 'integer', 200, 3)];
  given[3] = { ...given[3]!, top: [{ value: "O'H", share: 0.3 }] };
  given[2] = { ...given[2]!, path: 'airline.name', top: [{ value: 'Ohm', share: 0.3 }] };
  const paths = readPaths({ events: 1000, paths: given } as never);
  const texts = exampleQuestions('flights', paths).map((example) => example.text);
  assert.equal(texts[0], 'SELECT carrier, COUNT(*) AS n\nFROM STREAM(flights, MAX, TIME)\nGROUP BY carrier\nWINDOWING TUMBLING(1000, TIME)');
  assert.ok(texts.some((one) => one.includes('AVG(delay)') && one.includes('APPROX_PERCENTILE_CONT(delay, 0.95)')));
  assert.ok(texts.some((one) => one.includes('GROUP BY carrier, dest')));
  assert.ok(texts.some((one) => one.startsWith('SELECT TOP(10, dest)')));
  assert.ok(texts.some((one) => one.includes("WHERE carrier = 'O''H'")));
  assert.equal(exampleQuestions('s', []).length, 2);
});

test('a store without a database works on memory and says so', async () => {
  const store = new MemoryStore();
  assert.equal(store.persistent, false);
  for (let i = 0; i < 250; i += 1) await store.addHistory({ text: `q${i}`, dialect: 'native', parameters: [], at: i });
  const history = await store.history();
  assert.equal(history.length, 200);
  assert.equal(history[0]?.text, 'q249');
});
