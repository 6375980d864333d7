import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Ring } from '../src/ring.ts';
import { thin, thinIndexes } from '../src/thinning.ts';
import { Rates, ratesOf } from '../src/streams_history.ts';

test('the ring is a list that loses its oldest entries', () => {
  const pushes = fc.array(fc.record({ bytes: fc.nat(50), rows: fc.nat(5), evict: fc.boolean() }), { maxLength: 200 });
  fc.assert(
    fc.property(pushes, fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 20 }), (steps, bytesMax, entriesMax) => {
      const ring = new Ring<number>(bytesMax, entriesMax);
      let naive: Array<{ sequence: number; bytes: number; rows: number }> = [];
      let gone = 0;
      steps.forEach(({ bytes, rows, evict }, sequence) => {
        ring.push(sequence, bytes, rows);
        naive.push({ sequence, bytes, rows });
        const over = () => naive.reduce((sum, entry) => sum + entry.bytes, 0) > bytesMax || naive.length > entriesMax;
        while (naive.length > 1 && over()) (naive = naive.slice(1)), (gone += 1);
        if (evict) {
          ring.evict();
          if (naive.length > 1) (naive = naive.slice(1)), (gone += 1);
        }
        assert.equal(ring.length, naive.length);
        assert.equal(ring.evicted, gone);
        assert.equal(ring.bytes, naive.reduce((sum, entry) => sum + entry.bytes, 0));
        assert.deepEqual([...ring.range(-5, 1e9)].map((entry) => entry.sequence), naive.map((entry) => entry.sequence));
        const rowList = naive.flatMap((entry) => Array.from({ length: entry.rows }, (_, row) => [entry.sequence, row]));
        assert.equal(ring.rows, rowList.length);
        rowList.forEach((place, row) => {
          const found = ring.locate(row);
          assert.deepEqual([found?.entry.sequence, found?.row], place);
        });
        assert.equal(ring.locate(rowList.length), undefined);
        for (const entry of naive) {
          const before = naive.filter((other) => other.sequence <= entry.sequence).reduce((sum, other) => sum + other.rows, 0);
          assert.equal(ring.rowsUpTo(entry.sequence), before);
        }
      });
    }),
    { numRuns: 60 },
  );
});

const curve = fc.array(fc.option(fc.integer({ min: -1000, max: 1000 }), { nil: null, freq: 5 }), { minLength: 1, maxLength: 400 });

test('a thinned curve has at most two points a pixel, and each pixel keeps its extremes', () => {
  fc.assert(
    fc.property(curve, fc.integer({ min: 1, max: 40 }), (y, width) => {
      const x = y.map((_, i) => i * 10);
      const thinned = thin(x, y, width);
      assert.ok(thinned.x.length <= Math.max(2 * width, y.length <= 2 * width ? y.length : 0));
      assert.deepEqual(thinned.x, [...thinned.x].sort((a, b) => a - b));
      const span = (x[x.length - 1] as number) - (x[0] as number);
      const pixel = (at: number) => (span > 0 ? Math.min(width - 1, Math.floor((at / span) * width)) : 0);
      const extremes = (xs: number[], ys: Array<number | null>) => {
        const found = new Map<number, [number, number]>();
        xs.forEach((at, i) => {
          const value = ys[i];
          if (value === null || value === undefined) return;
          const [low, high] = found.get(pixel(at)) ?? [Infinity, -Infinity];
          found.set(pixel(at), [Math.min(low, value), Math.max(high, value)]);
        });
        return found;
      };
      assert.deepEqual(extremes(thinned.x, thinned.y), extremes(x, y));
    }),
  );
});

test('curves that share x keep the extremes of each', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.integer(), fc.integer()), { minLength: 1, maxLength: 300 }), fc.integer({ min: 1, max: 30 }), (pairs, width) => {
      const x = pairs.map((_, i) => i);
      const [a, b] = [pairs.map((pair) => pair[0]), pairs.map((pair) => pair[1])];
      const kept = thinIndexes(x, [a, b], width);
      for (const one of [a, b]) {
        const values = kept.map((i) => one[i] as number);
        assert.equal(Math.max(...values), Math.max(...one));
        assert.equal(Math.min(...values), Math.min(...one));
      }
      assert.ok(kept.length <= Math.max(4 * width, 2 * width));
    }),
  );
});

test('rates are differences of a counter; a fall and a hole give no rate', () => {
  assert.deepEqual(ratesOf([10, 15, null, 40, 3, 5], 1000), [5, null, null, null, 2]);
  assert.deepEqual(ratesOf([0, 5], 500), [10]);
});

test('a curve goes on from the history, with a hole for the time without status', () => {
  const rates = new Rates();
  const family = { name: 'swiftwater_stream_events_total', labels: { stream: 's' }, type: 'counter', values: [0, 1, 3] };
  rates.begin({ now: '2026-01-01T00:00:10Z', interval_ms: 1000, families: [family] });
  const at = Date.parse('2026-01-01T00:00:10Z');
  rates.add(at + 1000, [{ name: 's', eventsPerSecond: 7 }]);
  rates.add(at + 1500, [{ name: 's', eventsPerSecond: 8 }]);
  rates.add(at + 5000, [{ name: 's', eventsPerSecond: 9 }]);
  assert.deepEqual(rates.of('s'), [1, 2, 7, null, null, null, 9]);
  rates.add(at + 6000, []);
  assert.deepEqual(rates.of('s'), []);
});
