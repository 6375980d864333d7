import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MetricsSeries, SPAN_MS, distribution, quantile, shards } from '../src/metrics_series.ts';
import { type QueryCost, SORTS, dearest, filterSettings, inOrder, readQueries, readSettings, readSize } from '../src/operations_view.ts';
import { MetricsFault, type Sample, parseMetrics } from '../src/prometheus.ts';

const escape = (text: string) => text.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');
const written = (value: number) => (value === Infinity ? '+Inf' : value === -Infinity ? '-Inf' : String(value));
const write = ({ name, labels, value }: Sample) => `${name}${labels.size === 0 ? '' : `{${[...labels].map(([label, text]) => `${label}="${escape(text)}"`).join(',')}}`} ${written(value)}`;

const sample = fc.record({
  name: fc.stringMatching(/^[a-zA-Z_:][a-zA-Z0-9_:]{0,20}$/),
  labels: fc.uniqueArray(fc.tuple(fc.oneof(fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_]{0,10}$/), fc.constant('__proto__')), fc.string({ unit: 'grapheme' })), { selector: ([name]) => name, maxLength: 4 }).map((pairs) => new Map(pairs)),
  value: fc.oneof(fc.double(), fc.integer(), fc.constantFrom(Infinity, -Infinity, NaN)),
});

test('metrics that were written are read again', () => {
  fc.assert(
    fc.property(fc.array(sample, { maxLength: 8 }), fc.boolean(), (samples, comments) => {
      const text = samples.map((one) => `${comments ? `# HELP ${one.name} A "help" \\n of it.\n` : ''}${write(one)}\n`).join('');
      assert.deepEqual(parseMetrics(text), samples.map((one) => ({ ...one, value: Object.is(one.value, -0) ? 0 : one.value })));
    }),
  );
});

test('a damaged line of metrics is a fault or another valid line, never something else', () => {
  fc.assert(
    fc.property(sample, fc.nat(), fc.string({ maxLength: 3 }), (one, place, put) => {
      const line = write(one).replace(/\n/g, '');
      const at = place % (line.length + 1);
      const damaged = `${line.slice(0, at)}${put}${line.slice(at + 1)}`;
      try {
        for (const found of parseMetrics(damaged)) assert.match(found.name, /^[a-zA-Z_:][a-zA-Z0-9_:]*$/);
      } catch (error) {
        assert.ok(error instanceof MetricsFault, String(error));
      }
    }),
  );
});

test('what the grammar of metrics forbids is a fault with its line', () => {
  for (const line of ['a', 'a{', 'a{b} 1', 'a{b="c" 1', 'a{b="c",b="d"} 1', 'a{b="\\x"} 1', 'a{,} 1', 'a 1 2 3', 'a 0x10', 'a 1_000', 'a 1 1.5', '1a 1', 'a "1"', '# TYPE a table', 'a{b="c"}']) {
    assert.throws(() => parseMetrics(`ok 1\n${line}\n`), (error) => error instanceof MetricsFault && error.line === 2, line);
  }
  assert.throws(() => parseMetrics('# TYPE a gauge\n# TYPE a gauge\n'), MetricsFault);
  assert.deepEqual(parseMetrics('# a comment\n\n a { b = "c" , } 1.5e3 1700000000000\r\n'), [{ name: 'a', labels: new Map([['b', 'c']]), value: 1500 }]);
});

const BEGIN = Date.UTC(2026, 10, 30, 12);
const reading = (values: { [name: string]: number }, labels: { [label: string]: string } = {}): Sample[] => Object.entries(values).map(([name, value]) => ({ name, labels: new Map(Object.entries(labels)), value }));

test('rates of a counter are its growth by time; a restart and a pause are holes, and the span is bounded', () => {
  const step = fc.record({ ms: fc.integer({ min: 1, max: 20_000 }), grows: fc.integer({ min: -5, max: 100 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const series = new MetricsSeries();
      let [at, value] = [BEGIN, 1000];
      series.add(at, reading({ c: value }));
      for (const { ms, grows } of steps) {
        at += ms;
        value += grows;
        series.add(at, reading({ c: value }));
        const rates = series.rates('c');
        assert.equal(rates.length, series.times.length);
        const last = rates[rates.length - 1];
        if (grows < 0 || ms > 6000) assert.equal(last, null);
        else if (last !== null) assert.ok(Math.abs((last as number) - (grows * 1000) / ms) < 1e-6);
      }
      assert.ok((series.times[0] as number) >= at - SPAN_MS);
      assert.ok(series.times.every((time, i) => i === 0 || time > (series.times[i - 1] as number)));
      assert.equal(series.now('c'), value);
    }),
  );
});

test('the history goes on with readings, without a jump where they join', () => {
  const series = new MetricsSeries();
  const values = Array.from({ length: 900 }, (_, i) => i * 10);
  assert.equal(series.begin({ now: '', interval_ms: 1000, from: new Date(BEGIN).toISOString(), families: [{ name: 'c', labels: { a: 'b' }, type: 'counter', values }, { name: 'x', labels: {}, values: [null, 1n] }, 5] }), true);
  series.add(BEGIN + 899_400, reading({ c: 8999 }, { a: 'b' }));
  assert.equal(series.now('c'), 8999);
  series.add(BEGIN + 901_400, reading({ c: 9019 }, { a: 'b' }));
  assert.deepEqual(series.rates('c').slice(-3), [10, 10, 10]);
  assert.equal(series.now('x'), null);
  for (const nothing of [null, 5, [], {}, { from: 'never', families: [] }, { from: null, families: [] }]) assert.equal(new MetricsSeries().begin(nothing), false);
});

test('a distribution has all samples of its time, and its quantile bounds the share', () => {
  const counts = fc.array(fc.nat(50), { minLength: 3, maxLength: 3 });
  fc.assert(
    fc.property(counts, counts, fc.double({ min: 0.01, max: 1, noNaN: true }), (first, second, share) => {
      const series = new MetricsSeries();
      const total = (list: number[]) => list.reduce((a, b) => a + b, 0);
      const add = (at: number, list: number[]) =>
        series.add(at, [
          ...reading({ h_bucket: list[0] as number }, { le: '0.1' }),
          ...reading({ h_bucket: total(list.slice(0, 2)) }, { le: '1' }),
          ...reading({ h_bucket: total(list) }, { le: '+Inf' }),
          ...reading({ h_count: total(list) }),
        ]);
      add(BEGIN, first);
      add(BEGIN + 1000, first.map((count, i) => count + (second[i] as number)));
      const found = distribution(series, 'h', BEGIN, BEGIN + 1000);
      assert.deepEqual(found, { bounds: [0.1, 1, Infinity], counts: second, total: total(second) });
      const bound = quantile(found, share);
      if (total(second) === 0) assert.equal(bound, null);
      else assert.ok(found.bounds.reduce((sum, one, i) => sum + (one <= (bound as number) ? (found.counts[i] as number) : 0), 0) >= share * total(second));
    }),
  );
});

test('shares of a shard are of its own time and leave the rest idle', () => {
  const series = new MetricsSeries();
  for (const [i, at] of [BEGIN, BEGIN + 2000].entries()) {
    series.add(at, [
      ...['10', '2'].flatMap((shard) => [...reading({ swiftwater_shard_up_seconds_total: 5 + 2 * i, swiftwater_shard_events_total: 100 * i }, { shard }), ...reading({ swiftwater_shard_busy_seconds_total: i }, { shard, stage: 'match' })]),
    ]);
  }
  assert.deepEqual(shards(series, 10_000), ['2', '10'].map((shard) => ({ shard, eventsPerSecond: 50, shares: [0, 0.5, 0, 0], idle: 0.5 })));
});

test('the dearest queries come first by each key, and an order can be kept', () => {
  const cost = fc.record({ id: fc.string({ minLength: 1, maxLength: 4 }), cpuNanos: fc.nat(1000), matches: fc.nat(1000), bytesOut: fc.nat(1000), stateBytes: fc.nat(1000) });
  const query = (one: { id: string }): QueryCost => ({ stream: 's', text: '', received: '', finished: false, detached: false, dropped: 0, lagMs: 0, cpuNanos: 0, matches: 0, bytesOut: 0, stateBytes: 0, ...one });
  fc.assert(
    fc.property(fc.uniqueArray(cost, { selector: ({ id }) => id }), fc.constantFrom(...SORTS), (costs, sort) => {
      const now = costs.map(query);
      const before = new Map(now.map((one) => [one.id, { ...one, cpuNanos: 0, matches: 0, bytesOut: 0 }]));
      const rows = dearest(now, before, 1000, sort);
      const key = { cpu: 'cpuNanos', state: 'stateBytes', matches: 'matches', out: 'bytesOut' } as const;
      assert.deepEqual(rows.map(({ id }) => id).sort(), now.map(({ id }) => id).sort());
      for (let i = 1; i < rows.length; i += 1) assert.ok((rows[i - 1]?.[key[sort]] ?? 0) >= (rows[i]?.[key[sort]] ?? 0));
      const ids = now.map(({ id }) => id);
      assert.deepEqual(inOrder(rows, ids).map(({ id }) => id), ids);
    }),
  );
});

test('any JSON gives valid queries and settings', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      for (const data of [value, { queries: [value] }, { settings: [value] }, { queries: [{ id: 'a', cost: value }], settings: [{ name: 'a', value }] }]) {
        assert.ok(readQueries(data as never).every(({ id, cpuNanos }) => typeof id === 'string' && Number.isFinite(cpuNanos)));
        assert.ok(readSettings(data as never).every(({ value: text }) => typeof text === 'string'));
      }
    }),
  );
  const settings = readSettings({ settings: [{ name: 'b', value: 1, default: 1, origin: 'default', allowed: '', doc: 'Two.' }, { name: 'c', value: '2s', default: '1s', origin: 'file', allowed: '', doc: '' }] });
  assert.deepEqual(settings.map(({ name, changed }) => [name, changed]), [['c', true], ['b', false]]);
  assert.deepEqual(filterSettings(settings, ' TWO  b').map(({ name }) => name), ['b']);
});

test('sizes of settings are read', () => {
  const sizes: Array<[string, number | null]> = [['64MiB', 67108864], ['1_000', 1000], ['"2 GiB"', 2147483648], ['1.5KiB', 1536], ['', null], ['5s', null], ['constructor', null], ['1constructor', null]];
  for (const [text, size] of sizes) assert.equal(readSize(text), size, text);
});
