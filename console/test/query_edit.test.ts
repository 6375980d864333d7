import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { significant, tokensOf } from '../src/bql.ts';
import { type Path, readPaths } from '../src/examples.ts';
import { addCondition, averageOf, chartOf, conditionOf, countBy } from '../src/query_edit.ts';

const SPACES = ['', ' ', '\n', ' -- WHERE GROUP BY (\n', ' /* LIMIT 5 ) */ '];
const space = fc.constantFrom(...SPACES.slice(1));
/** An operand or a condition without OR outside of brackets. */
const simple = fc.constantFrom('a = 1', "b = ' OR WHERE '", 'NOT c', '(a = 1 OR b = 2)', 'x.where = 2', '"GROUP BY" = 1', "s IN ('a', ')')", 'a BETWEEN (1, 5)', "m['LIMIT 5'] IS NULL", '"limit" > 5', 'windowing IS NOT NULL');
const disjunct = fc.constantFrom('a = 1 OR b = 2', 'a = 1 XOR b', "c = '(' or d", 'CASE WHEN a OR b THEN TRUE ELSE FALSE END');
const query = fc.record({
  explain: fc.constantFrom('', 'EXPLAIN ', 'explain analyze '),
  select: fc.constantFrom('*', 'a, COUNT(*) AS n', 'COUNT(*) FILTER (WHERE x > 5) AS n', "'WHERE' AS w", 'TOP(10, a.order)', 'CAST(a AS LONG)'),
  from: fc.constantFrom('STREAM()', 'STREAM(flights, MAX, TIME)', 'STREAM("WHERE x", 300, TIME)', 'STREAM(s) SAMPLE 0.1', 'STREAM(s) AS limits'),
  where: fc.option(fc.tuple(fc.array(simple, { minLength: 1, maxLength: 3 }).map((all) => all.join(' AND ')), fc.option(disjunct))),
  group: fc.option(fc.constantFrom('GROUP BY a', 'group by "WHERE", b', 'GROUP BY GROUPING SETS ((a), (b))')),
  having: fc.option(fc.constantFrom('HAVING n > 2 OR n < 1', "HAVING a = 'WHERE'")),
  order: fc.option(fc.constantFrom('ORDER BY n DESC', 'ORDER  BY "LIMIT"')),
  windowing: fc.option(fc.constantFrom('WINDOWING TUMBLING(1000, TIME)', "windowing EVERY(INTERVAL '1 second', TIME, ALL)")),
  limit: fc.option(fc.constantFrom('LIMIT 5', 'limit $1')),
  gaps: fc.array(space, { minLength: 10, maxLength: 10 }),
});
const words = (text: string) => significant(text).map(({ from, to }) => text.slice(from, to));

test('a condition is added where it belongs, with an OR in brackets, and nothing else changes', () => {
  fc.assert(
    fc.property(query, fc.constantFrom("x = 'WHERE'", 'a.b = 5', "\"it's\" = '-- '''"), (parts, condition) => {
      const build = (where: string | null) => {
        const all = [`${parts.explain}SELECT`, parts.select, 'FROM', parts.from, where === null ? null : `WHERE ${where}`, parts.group, parts.having, parts.order, parts.windowing, parts.limit];
        return all.filter((part) => part !== null).reduce((text, part, i) => (i === 0 ? part : `${text}${parts.gaps[i]}${part}`), '');
      };
      const held = parts.where === null ? null : parts.where[1] === null ? parts.where[0] : `${parts.where[0]} AND ${parts.where[1]}`;
      const expected = held === null ? condition : parts.where?.[1] === null ? `${held} AND ${condition}` : `(${held}) AND ${condition}`;
      const text = build(held);
      const changed = addCondition(text, condition);
      assert.notEqual(changed, null, text);
      assert.deepEqual(words(changed ?? ''), words(build(expected)), changed ?? '');
      const comments = (of: string) => tokensOf(of).filter(({ kind }) => kind === 'comment').map(({ from, to }) => of.slice(from, to));
      assert.deepEqual(comments(changed ?? ''), comments(text));
    }),
    { numRuns: 1000 },
  );
});

test('a text without a certain place for a condition is left', () => {
  for (const text of [
    '', 'SELECT', '{"filters": []}', "SELECT * FROM STREAM(a) WHERE x = 'open", 'SELECT * FROM STREAM(a', 'SELECT * FROM STREAM(a) WHERE', 'SELECT * FROM STREAM(a) JOIN t ON a.x = t.x',
    'SELECT * FROM (SELECT * FROM STREAM(a))', 'SELECT * FROM STREAM(a); SELECT 1', 'SELECT * FROM STREAM(a) LATERAL VIEW EXPLODE(x) AS y', 'SELECT * FROM STREAM(a) LIMIT 5 WHERE x = 1',
    'SELECT * FROM STREAM(a) WHERE x = 1 WHERE y = 2', 'SELECT * FROM STREAM(a) MATCH_RECOGNIZE (PATTERN (A))', 'CREATE VIEW v AS SELECT * FROM STREAM(a)', 'SELECT * FROM', 'SELECT ( ] FROM STREAM(a)',
  ]) assert.equal(addCondition(text, 'a = 1'), null, text);
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => void addCondition(text, 'a = 1')));
  assert.equal(addCondition('SELECT * FROM STREAM(a)-- all', 'a = 1'), 'SELECT * FROM STREAM(a) WHERE a = 1 -- all');
  assert.equal(addCondition('SELECT *\nFROM STREAM(a) -- all', 'a = 1'), 'SELECT *\nFROM STREAM(a)\nWHERE a = 1 -- all');
});

test('a condition on any path and value is one comparison', () => {
  const value = fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.bigInt());
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }).filter((name) => !/[."[]/.test(name)), value, (name, held) => {
      const condition = conditionOf(name, held);
      const tokens = significant(condition).map(({ kind }) => kind);
      assert.ok(!tokens.includes('unclosed'));
      const changed = addCondition('SELECT * FROM STREAM(s) LIMIT 5', condition);
      assert.equal(changed, `SELECT * FROM STREAM(s) WHERE ${condition} LIMIT 5`);
    }),
  );
  assert.equal(conditionOf('a.b', "it's"), "a.b = 'it''s'");
  assert.equal(conditionOf('order', 9007199254740993n), '"order" = 9007199254740993');
});

test('questions about a field fit its type', () => {
  const [number, text] = readPaths({ events: 5, paths: [{ path: 'a.b c', types: { number: 1 } }, { path: 'limit', types: { string: 1 }, least: 'a', null: 0.25, top: [{ value: 9007199254740993n, share: 1 }] }] }) as [Path, Path];
  assert.match(chartOf('s', number), /^SELECT FREQ\(a\['b c'\], LINEAR, 12\)\nFROM STREAM\(s, MAX, TIME\)/);
  assert.match(chartOf('s', text), /^SELECT TOP\(10, "limit"\)/);
  assert.match(countBy('a b', text.path), /^SELECT "limit", COUNT\(\*\) AS n\nFROM STREAM\("a b", MAX, TIME\)\nGROUP BY "limit"/);
  assert.match(averageOf('s', number.path), /AVG\(a\['b c'\]\) AS average/);
  assert.deepEqual([text.least, text.nulls, text.top[0]?.value], ['a', 0.25, 9007199254740993n]);
});
