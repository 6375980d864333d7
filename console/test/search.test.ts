import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  EMPTY, type SearchState, activityCall, asksSomething, evenIntervals, facetColumns, faultsOf, fieldsCall, followCall, hitsCall, readAnswer, readEvent, readFacets, readSearch, writeSearch,
} from '../src/search_state.ts';

const word = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 });
const time = fc.constantFrom('', 'now-15m', 'now-1h', '2026-11-30T12:00:00.000Z');
const state: fc.Arbitrary<SearchState> = fc.record({
  streams: fc.uniqueArray(word, { maxLength: 4 }),
  words: fc.string({ unit: 'grapheme', maxLength: 40 }),
  from: time,
  to: time,
  drills: fc.uniqueArray(fc.tuple(fc.stringMatching(/^[a-z.]{1,8}$/), word).map(([column, value]) => `${column}:${value}`), { maxLength: 3 }),
  activity: fc.option(word),
  depth: fc.integer({ min: 0, max: 5 }),
});

test('a search survives its link', () => {
  fc.assert(fc.property(state, (one) => assert.deepEqual(readSearch(writeSearch(one)), { ...one })));
  assert.equal(writeSearch(EMPTY), '#/search');
});

test('any fragment gives a valid search', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string().map((text) => `#/search?${text}`), fc.webQueryParameters().map((text) => `#/search?depth=${text}&${text}`)), (fragment) => {
      const found = readSearch(fragment);
      assert.ok(Number.isInteger(found.depth) && found.depth >= 0 && found.depth <= 5);
      assert.deepEqual(readSearch(writeSearch(found)), found);
    }),
  );
});

test('a call carries the search as it is', () => {
  fc.assert(
    fc.property(state, (one) => {
      const values = (call: string) => new URLSearchParams(call.slice(call.indexOf('?') + 1));
      const hits = values(hitsCall(one, null));
      assert.deepEqual(hits.getAll('stream'), one.streams);
      assert.deepEqual(hits.getAll('drill'), one.drills);
      assert.equal(hits.get('q') ?? '', one.words.trim() === '' ? '' : one.words);
      assert.equal(hits.get('from') ?? '', one.from);
      assert.equal(values(hitsCall(one, 'c')).get('cursor'), 'c');
      for (const cursor of [null, 'c']) assert.equal(values(hitsCall(one, cursor)).get('partial'), 'true');
      // A search that follows refuses these.
      for (const name of ['to', 'cursor', 'partial', 'histogram', 'sort']) assert.equal(values(followCall(one)).has(name), false);
      assert.match(fieldsCall(one, 'a/b?c'), /^v1\/streams\/a%2Fb%3Fc\/search\/fields\?/);
      const path = activityCall(one, null).split('?')[0] ?? '';
      assert.equal(decodeURIComponent(path.slice('v1/activity/'.length)), one.activity ?? '');
    }),
  );
  assert.equal(asksSomething({ ...EMPTY, activity: '' }), false);
});

test('any JSON gives a valid answer', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      for (const data of [value, { hits: [value], histogram: [value], meta: value }, { hits: [{ stream: 's', event: value, highlight: { a: [value], b: value } }], events: value }]) {
        const answer = readAnswer(data as never);
        assert.ok(answer.hits.every(({ stream, offset }) => typeof stream === 'string' && typeof offset === 'string'));
        readFacets({ facets: { a: data } } as never);
        facetColumns([data as never, { fields: [data as never] }], 5);
        readEvent(data as never);
      }
    }),
  );
});

test('columns of facets are those that all streams have and whose values fit a list', () => {
  const field = (column: string, distinct: number | null, type = 'VARCHAR') => ({ column, type, count: 1, distinct, exact: true, values: [] });
  const a = { fields: [field('level', 3), field('host', 2), field('only', 2), field('message', 5000), field('tags', null), field('_time', 5), field('at', 5, 'TIMESTAMP'), field('a;b', 2)] };
  const b = { fields: [field('host', 9), field('level', 4)] };
  assert.deepEqual(facetColumns([a, b], 5), ['level', 'host']);
  assert.deepEqual(facetColumns([a], 2), ['host', 'only']);
  assert.deepEqual(facetColumns([], 5), []);
});

test('intervals without hits are filled in, and none is lost', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(300), { maxLength: 30 }), fc.constantFrom(1000, 60_000), (places, step) => {
      const given = places.sort((x, y) => x - y).map((place, i) => ({ at: place * step, count: i + 1 }));
      const { intervals, stepMs } = evenIntervals(given);
      assert.equal(intervals.reduce((sum, { count }) => sum + count, 0), given.reduce((sum, { count }) => sum + count, 0));
      for (let i = 1; i < intervals.length; i += 1) assert.equal((intervals[i]?.at ?? 0) - (intervals[i - 1]?.at ?? 0), stepMs);
    }),
  );
  assert.deepEqual(evenIntervals([{ at: 5, count: 1 }]), { intervals: [{ at: 5, count: 1 }], stepMs: 0 });
});

test('faults of the words have their characters', () => {
  const problem = (detail: string, more = {}) => ({ title: 'It failed', status: 400, detail, ...more });
  assert.deepEqual(faultsOf(problem('the search cannot be read: character 1: `(` is not closed; character 12: `OR` has nothing after it')), [
    { character: 1, message: '`(` is not closed' },
    { character: 12, message: '`OR` has nothing after it' },
  ]);
  assert.deepEqual(faultsOf(problem('character 3: a; b: c')), [{ character: 3, message: 'a; b: c' }]);
  assert.deepEqual(faultsOf(problem('no stream `x`')), [{ character: null, message: 'no stream `x`' }]);
});
