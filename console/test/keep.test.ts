import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { significant } from '../src/bql.ts';
import { createAlertOn, createEventSink } from '../src/ddl.ts';
import { sinkQuery, viewQuery } from '../src/keep.ts';
import type { Parameter, Question } from '../src/protocol.ts';

const of = (text: string, parameters: Parameter[] = [], dialect: Question['dialect'] = 'native'): Question => ({ text, parameters, dialect });
const unknown = () => undefined;
const view = (text: string, parameters: Parameter[] = []) => viewQuery(of(text, parameters), unknown);
const sink = (text: string, parameters: Parameter[] = []) => sinkQuery(of(text, parameters), unknown);
const why = (found: ReturnType<typeof view>): string => ('why' in found ? found.why : `no reason: ${found.query}`);

test('a grouped query becomes the query of a view, without what has an end or an order', () => {
  assert.deepEqual(view('SELECT carrier, COUNT(*) AS n\nFROM STREAM(flights, MAX, TIME)\nGROUP BY carrier\nWINDOWING TUMBLING(1000, TIME)'), {
    query: 'SELECT carrier, COUNT(*) AS n\nFROM STREAM(flights)\nGROUP BY carrier\nWINDOWING TUMBLING(1000, TIME)',
    leftOut: [],
  });
  assert.deepEqual(view('SELECT a, COUNT(*) AS n FROM STREAM("x, y", 5000, TIME) WHERE a = $1 GROUP BY a HAVING COUNT(*) > 1 ORDER BY n DESC WINDOWING EVERY(1000, TIME, ALL) LIMIT 5;', ["it's"]), {
    query: `SELECT a, COUNT(*) AS n FROM STREAM("x, y") WHERE a = 'it''s' GROUP BY a HAVING COUNT(*) > 1`,
    leftOut: ['WINDOWING', 'the duration', 'ORDER BY', 'LIMIT'],
  });
  assert.deepEqual(view('SELECT COUNT(*) FROM STREAM(5000, TIME)'), { query: 'SELECT COUNT(*) FROM STREAM()', leftOut: ['the duration'] });
  assert.deepEqual(view('SELECT DISTINCT a FROM STREAM(s)'), { query: 'SELECT DISTINCT a FROM STREAM(s)', leftOut: [] });
});

test('words in texts, names, paths and comments are no clauses', () => {
  const text = `SELECT a."order" AS "limit", s.limit, COUNT(*) -- LIMIT 5\nFROM STREAM(s) WHERE b = 'ORDER BY  x\n\n LIMIT 1' /* WINDOWING */ GROUP BY a."order", s.limit`;
  assert.deepEqual(view(text), { query: text, leftOut: [] });
});

test('parameters become literals that stay one value', () => {
  const found = view('SELECT COUNT(*) FROM STREAM(s) WHERE a > 5 -$1 AND b = $2 AND c = $3 AND d = $1', [-5, null, true]);
  assert.deepEqual(found, { query: 'SELECT COUNT(*) FROM STREAM(s) WHERE a > 5 -(-5) AND b = NULL AND c = TRUE AND d = (-5)', leftOut: [] });
  assert.match(why(view('SELECT COUNT(*) FROM STREAM(s) WHERE a = $2', [1])), /no value for \$2/);
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (value) => {
      const kept = view('SELECT COUNT(*) FROM STREAM(s) WHERE a = $1', [value]);
      assert.ok('query' in kept);
      assert.equal(kept.query.replace(/'(?:[^']|'')*'/g, '◇'), 'SELECT COUNT(*) FROM STREAM(s) WHERE a = ◇');
    }),
  );
});

test('a query that a view refuses has a reason', () => {
  assert.match(why(view('SELECT * FROM STREAM(s)')), /GROUP BY or aggregates/);
  assert.match(why(view('SELECT count, x.SUM FROM STREAM(s)')), /GROUP BY or aggregates/);
  assert.match(why(view('SELECT COUNT(*) FROM STREAM(s) WINDOWING SESSION(5000, TIME)')), /SESSION/);
  assert.match(why(view('SELECT COUNT(*) FROM STREAM(s) WINDOWING TUMBLING(5, RECORD)')), /RECORD/);
  assert.match(why(view('SELECT COUNT(*) FROM (SELECT a FROM STREAM(s) GROUP BY a)')), /inner query/);
  assert.match(why(view('SELECT COUNT(*) FROM STREAM(a) AS a JOIN STREAM(b) AS b ON a.i = b.i')), /one stream/);
  assert.match(why(view('EXPLAIN SELECT COUNT(*) FROM STREAM(a)')), /EXPLAIN/);
  assert.match(why(view("SELECT COUNT(*) FROM STREAM(a) WHERE b = 'x")), /has no end/);
  assert.match(why(view('SELECT COUNT(*) FROM STREAM(a)) GROUP BY b')), /not sure/);
  assert.match(why(view('{"aggregation": {}}')), /JSON form/);
  assert.match(why(viewQuery(of('SELECT COUNT(*) FROM STREAM(a)', [], 'bullet'), unknown)), /Bullet's rules/);
  assert.match(why(viewQuery(of('SELECT COUNT(*) FROM STREAM(a)'), () => false)), /stored stream/);
});

test('a query without groups becomes a sink of events, and no other', () => {
  assert.deepEqual(sink('SELECT * FROM STREAM(s, MAX, TIME) WHERE a = $1 LIMIT 10', ['x']), { query: "SELECT * FROM STREAM(s) WHERE a = 'x'", leftOut: ['LIMIT'] });
  assert.match(why(sink('SELECT COUNT(*) FROM STREAM(s)')), /keep it as a view/);
  assert.match(why(sink('SELECT a FROM STREAM(s) GROUP BY a')), /keep it as a view/);
  assert.match(why(sink('SELECT a FROM STREAM(s) JOIN users AS u ON u.id = a')), /no JOIN/);
  assert.match(why(sinkQuery(of('SELECT a FROM STREAM(s)'), () => false)), /stored stream/);
});

test('any text gives a query or a reason', () => {
  const word = fc.constantFrom('SELECT', 'FROM', 'STREAM', '(', ')', 's', ',', 'MAX', 'TIME', 'GROUP', 'BY', 'WINDOWING', 'TUMBLING', 'LIMIT', '5', '$1', "'", '--', 'COUNT', '*', '\n', ';', 'ORDER', 'HAVING');
  fc.assert(
    fc.property(fc.array(word, { maxLength: 30 }), (words) => {
      for (const found of [view(`SELECT ${words.join(' ')}`, [1]), sink(words.join(' '), [1])]) {
        if ('query' in found) assert.ok(significant(found.query).every(({ kind }) => kind !== 'parameter'));
        else assert.ok(found.why.length > 0);
      }
    }),
    { numRuns: 500 },
  );
});

test('a query is in parentheses on lines of its own, as it may end with a comment', () => {
  assert.equal(createAlertOn('hot', 'SELECT 1 -- x', ' n > 5 ', 'alerts'), 'CREATE ALERT hot ON (\nSELECT 1 -- x\n) WHEN n > 5 INTO alerts');
  assert.equal(createEventSink('my sink', 'SELECT * FROM STREAM(s)', 'out'), 'CREATE SINK "my sink" FROM (\nSELECT * FROM STREAM(s)\n) INTO STREAM out');
});
