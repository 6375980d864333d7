import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ChangeFeed, columnsOf, differences } from '../src/changes.ts';
import { alterStream, createAlert, createJob, createSink, createStream, createView, dependentsIn, DEPENDENTS, dropStatement, endpointName, keySegments, quarantined, sqlName, sqlText, storedPage } from '../src/ddl.ts';
import { type Json, formatJson } from '../src/json.ts';

const text = fc.string({ unit: 'grapheme' });

/** What a statement says outside of its quotes: a name or text in quotes becomes one mark. */
function skeleton(statement: string): string {
  return statement.replace(/"(?:[^"]|"")*"/g, '◆').replace(/'(?:[^']|'')*'/g, '◇');
}

test('no name or text leaves its quotes', () => {
  fc.assert(
    fc.property(text, (name) => {
      assert.equal(skeleton(sqlName(name)), '◆');
      assert.equal(skeleton(sqlText(name)), '◇');
      assert.equal(skeleton(storedPage(name, { from: 5 }, 50)), 'SELECT * FROM ◆ WHERE _offset >= 5 ORDER BY _offset LIMIT 50');
      assert.equal(skeleton(quarantined(name, 5)), 'SELECT _offset, _time, path, reason, event FROM quarantine WHERE stream = ◇ ORDER BY _offset DESC LIMIT 5');
      assert.equal(skeleton(endpointName('GET', name)), 'GET ◇');
      assert.match(skeleton(dropStatement('VIEW', name)), /^DROP VIEW (◆|[A-Za-z_]\w*)$/);
      assert.match(skeleton(alterStream(name, { is: 'set', option: 'retention', value: `x${name}` })), /^ALTER STREAM (◆|[A-Za-z_]\w*) SET \(retention = (◇|x\w*)\)$/);
    }),
  );
});

test('statements of streams', () => {
  const column = { name: 'delay', type: 'LONG', notNull: true, otherwise: ' 0 ' };
  assert.equal(createStream({ name: 'clicks', columns: [], store: true, retention: '', quarantine: false }), 'CREATE STREAM clicks WITH (store = true)');
  assert.equal(
    createStream({ name: 'a-b', columns: [column, { ...column, name: '' }], store: false, retention: '30 days', quarantine: true }),
    `CREATE STREAM "a-b" (\n  delay LONG NOT NULL DEFAULT 0\n) WITH (store = false, retention = '30 days', on_bad_event = quarantine)`,
  );
  assert.equal(alterStream('s', { is: 'add', column }), 'ALTER STREAM s ADD COLUMN delay LONG NOT NULL DEFAULT 0');
  assert.equal(alterStream('s', { is: 'type', column: 'x', type: 'DOUBLE' }), 'ALTER STREAM s ALTER COLUMN x TYPE DOUBLE');
  assert.equal(alterStream('s', { is: 'set', option: 'store', value: 'true' }), 'ALTER STREAM s SET (store = true)');
  assert.equal(alterStream('s', { is: 'reset', option: 'retention' }), 'ALTER STREAM s RESET (retention)');
  assert.equal(alterStream('a-b', { is: 'pause' }), 'ALTER STREAM "a-b" PAUSE');
  assert.equal(storedPage('s', { time: '2026-11-30T00:00:00.000Z' }, 5), `SELECT * FROM "s" WHERE _time >= '2026-11-30T00:00:00.000Z'::TIMESTAMPTZ ORDER BY _offset LIMIT 5`);
  assert.equal(storedPage('s', { newest: true }, 5), 'SELECT * FROM "s" ORDER BY _offset DESC LIMIT 5');
  assert.equal(storedPage('s', { before: 7 }, 5), 'SELECT * FROM "s" WHERE _offset < 7 ORDER BY _offset DESC LIMIT 5');
});

test('objects that depend on a stream are found by its name alone', () => {
  const [views, , sinks] = DEPENDENTS;
  assert.ok(views !== undefined && sinks !== undefined);
  assert.deepEqual(dependentsIn(views, [{ view: 'v', stream: 's', of_view: null }, { view: 's', stream: 's' }, { view: 'w', stream: 'other', of_view: 's' }, 5], 's'), ['view v', 'view w']);
  assert.deepEqual(dependentsIn(sinks, [{ sink: 'a', view: null, stream: null, target: 'STREAM s' }, { sink: 'b', target: 'TABLE s2' }], 's'), ['sink a']);
  assert.deepEqual(dependentsIn(sinks, [{ sink: 'a', target: 'STREAM "my s"' }, { sink: 'b', target: '"my s"' }, { sink: 'c', target: 'STREAM my' }], 'my s'), ['sink a', 'sink b']);
});

test('a change marks exactly the cells that differ from the last row of its key', () => {
  const cell: fc.Arbitrary<Json> = fc.oneof(fc.integer(), text, fc.constant(null), fc.bigInt({ min: 2n ** 60n, max: 2n ** 61n }), fc.array(fc.integer(), { maxLength: 2 }));
  const row = fc.dictionary(fc.constantFrom('a', 'b', '__proto__', 'c d'), cell, { noNullPrototype: true });
  const step = fc.record({ key: fc.constantFrom('x', 'y'), row: fc.option(row) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const feed = new ChangeFeed(10, 100);
      const last = new Map<string, { [name: string]: Json }>();
      steps.forEach(({ key, row: next }, i) => {
        feed.line(formatJson({ key: [key], row: next, position: i }), i);
        const before = last.get(key);
        const [change] = feed.changes;
        assert.ok(change !== undefined);
        assert.equal(feed.position, i);
        if (next === null || before === undefined) assert.equal(change.changed, null);
        else {
          const names = new Set([...Object.keys(before), ...Object.keys(next)]);
          const text = (of: { [name: string]: Json }, name: string) => (Object.hasOwn(of, name) ? formatJson(of[name] as Json) : 'absent');
          const expected = [...names].filter((name) => text(before, name) !== text(next, name));
          assert.deepEqual([...(change.changed ?? [])].sort(), expected.sort());
        }
        if (next === null) last.delete(key);
        else last.set(key, next);
        assert.ok(feed.changes.length <= 10);
      });
      assert.equal(feed.count, steps.length);
    }),
  );
});

test('a feed forgets the keys that changed longest ago', () => {
  const feed = new ChangeFeed(5, 2);
  for (const key of ['a', 'b', 'c', 'a']) feed.line(formatJson({ key: [key], row: { n: 1 } }), 0);
  assert.equal(feed.changes[0]?.changed, null);
  feed.line('{"key":["c"],"row":{"n":2}}', 0);
  assert.deepEqual(feed.changes[0]?.changed, ['n']);
  feed.line('{"position":9}', 0);
  assert.equal(feed.position, 9);
  assert.throws(() => feed.line('{', 0), SyntaxError);
  assert.deepEqual(columnsOf([{ a: 1, b: 2 }, null, { c: 3, a: 1 }]), ['a', 'b', 'c']);
  assert.deepEqual(differences({ a: 1 }, { a: 1, b: null }), ['b']);
});

test('statements of views, alerts, sinks and jobs', () => {
  assert.equal(createView('v', 'SELECT a, COUNT(*) AS n FROM STREAM("x, y", MAX, TIME) AS s GROUP BY a;', true), 'CREATE MATERIALIZED VIEW v WITH (backfill = true) AS\nSELECT a, COUNT(*) AS n FROM STREAM("x, y") AS s GROUP BY a');
  assert.equal(createAlert('a', 'my view', ' n > 5 ', 'alerts'), 'CREATE ALERT a ON "my view" WHEN n > 5 INTO alerts');
  assert.equal(createAlert('a', 'v', 'n > 5', "https://h/it's"), "CREATE ALERT a ON v WHEN n > 5 INTO WEBHOOK 'https://h/it''s'");
  assert.equal(createSink('s', 'v', 'out'), 'CREATE SINK s FROM v INTO STREAM out');
  assert.equal(createSink('s', ' changes  of my view', 'out'), 'CREATE SINK s FROM CHANGES OF "my view" INTO STREAM out');
  assert.equal(createJob('j', '@daily', 'INSERT INTO t SELECT 1;'), "CREATE JOB j SCHEDULE '@daily' AS\nINSERT INTO t SELECT 1");
  assert.equal(createJob('j', '@daily', 'SELECT 1; SELECT 2'), "CREATE JOB j SCHEDULE '@daily' AS\n$$ SELECT 1; SELECT 2 $$");
});

test('a key is read as values separated by slashes, or as JSON', () => {
  assert.deepEqual(keySegments(' JFK / LAX '), ['JFK', 'LAX']);
  assert.deepEqual(keySegments('["a/b", 5, null]'), ['%22a%2Fb%22', '5', 'null']);
  assert.deepEqual(keySegments('[5'), ['%5B5']);
  assert.deepEqual(keySegments('  '), []);
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 4 }), (values) => {
      assert.deepEqual(keySegments(JSON.stringify(values)).map((part) => decodeURIComponent(part)), values.map((value) => `"${value}"`));
    }),
  );
  assert.deepEqual(keySegments('["2026-11-30T12:00:00Z", "-Infinity", "a\\"b"]').map(decodeURIComponent), ['2026-11-30T12:00:00Z', '-Infinity', '"a"b"']);
  assert.deepEqual(keySegments('../a/.').map(decodeURIComponent), ['".."', 'a', '"."']);
});
