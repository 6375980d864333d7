import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { choose, describe as describeColumns, type Column, type Role } from '../src/chart_choice.ts';
import { Connection, type Socket, type SocketEvents, delayMs } from '../src/connection.ts';
import { type Json, formatJson, parseJson } from '../src/json.ts';
import { LiveQuery } from '../src/live_query.ts';
import { VIEW, type View, bins, compute, newMemory } from '../src/picture.ts';
import { CREDIT_BYTES, FrameReader, type Incoming, utf8Bytes } from '../src/protocol.ts';

const anyText = fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)) });

test('bytes in UTF-8 are counted as the encoder writes them', () => {
  fc.assert(fc.property(anyText, (text) => assert.equal(utf8Bytes(text), new TextEncoder().encode(text).length)));
});

test('a frame is read the same whole and in pieces, with others between them', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue() as fc.Arbitrary<Json>), fc.array(fc.nat(200), { maxLength: 6 }), (data, cuts) => {
      const text = formatJson(data);
      const reader = new FrameReader();
      const whole = reader.read(`{"id":4,"event":"emit","number":7,"data":${text}}`) as Incoming;
      assert.deepEqual(whole, { id: 4, event: 'emit', number: 7, text, bytes: utf8Bytes(text) });
      const at = [...new Set([0, ...cuts.map((c) => Math.min(c, text.length)), text.length])].sort((a, b) => a - b);
      let bytes = 0;
      let last: Incoming | null = null;
      for (let i = 0; i + 1 < at.length; i += 1) {
        const more = i + 2 < at.length ? { more: true } : {};
        last = reader.read(JSON.stringify({ id: 4, event: 'emit', number: 7, ...more, text: text.slice(at[i], at[i + 1]) })) as Incoming;
        bytes += last.bytes;
        assert.equal((reader.read('{"id":5,"event":"pong","data":{"now":""}}') as Incoming).id, 5);
      }
      assert.equal(last?.text, text);
      assert.equal(bytes >= whole.bytes, true);
    }),
  );
});

test('a frame in another order of members is read too; what is no frame is refused', () => {
  const reader = new FrameReader();
  assert.deepEqual(reader.read('{"event": "ended", "data": {"reason": "limit"}, "id": 3}'), { id: 3, event: 'ended', number: null, text: '{"reason":"limit"}', bytes: 18 });
  assert.deepEqual(reader.read('{"hello":{"version":"1","build":null,"now":"","features":[]}}'), { hello: { version: '1', build: null, now: '', features: [] } });
  for (const bad of ['', '[]', '5', '{"id":1}', '{"id":1,']) assert.throws(() => reader.read(bad), SyntaxError);
});

test('waits grow from 0.25 s to 5 s, with jitter', () => {
  assert.equal(delayMs(0, 1), 250);
  assert.equal(delayMs(0, 0), 125);
  assert.equal(delayMs(3, 1), 2000);
  fc.assert(fc.property(fc.nat(1000), fc.double({ min: 0, max: 1, noNaN: true }), (attempt, random) => delayMs(attempt, random) <= 5000 && delayMs(attempt, random) >= 125));
});

/** A world in which time passes only by `pass`. */
class Fake {
  time = 1_000_000;
  sockets: Array<{ events: SocketEvents; sent: string[]; open: boolean }> = [];
  log: string[] = [];
  private timers: Array<{ at: number; run: () => void }> = [];
  connection = new Connection(
    {
      open: (events): Socket => {
        const socket = { events, sent: [] as string[], open: true };
        this.sockets.push(socket);
        return { send: (text) => socket.sent.push(text), close: () => (socket.open = false) };
      },
      now: () => this.time,
      random: () => 1,
      after: (ms, run) => {
        this.timers.push({ at: this.time + ms, run });
        return () => {};
      },
    },
    { changed: (state) => this.log.push(state.phase), ready: () => this.log.push('ready'), lost: () => this.log.push('lost'), frame: (frame) => this.log.push(frame.event) },
  );
  get socket() {
    return this.sockets[this.sockets.length - 1]!;
  }
  hello() {
    this.socket.events.received('{"hello":{"version":"1","build":"b","now":"1970-01-01T00:16:45.000Z","features":[]}}');
  }
  pass(ms: number) {
    const end = this.time + ms;
    for (;;) {
      this.timers.sort((a, b) => a.at - b.at);
      const next = this.timers[0];
      if (next === undefined || next.at > end) break;
      this.timers.shift();
      this.time = next.at;
      next.run();
    }
    this.time = end;
  }
}

test('a lost connection is opened again, and its late messages count no more', () => {
  const fake = new Fake();
  fake.connection.start();
  fake.hello();
  assert.equal(fake.connection.state.clockAheadMs, 5000);
  const old = fake.socket;
  old.events.closed();
  old.events.received('{"id":1,"event":"emit","data":{}}');
  assert.deepEqual(fake.log, ['live', 'ready', 'reconnecting', 'lost']);
  fake.pass(249);
  assert.equal(fake.sockets.length, 1);
  fake.pass(1);
  assert.equal(fake.sockets.length, 2);
  fake.hello();
  old.events.received('{"id":1,"event":"emit","data":{"a":{}}}');
  old.events.closed();
  assert.deepEqual(fake.log.slice(4), ['live', 'ready']);
});

test('three failures before any hello: no WebSocket, and another attempt after 30 s', () => {
  const fake = new Fake();
  fake.connection.start();
  for (const wait of [250, 500]) {
    fake.socket.events.closed();
    fake.pass(wait);
  }
  fake.socket.events.closed();
  assert.deepEqual(fake.log, ['unavailable']);
  fake.pass(29_999);
  assert.equal(fake.sockets.length, 3);
  fake.pass(1);
  assert.equal(fake.sockets.length, 4);
});

test('a silent connection is asked once and then given up; an answer saves it', () => {
  const fake = new Fake();
  fake.connection.start();
  fake.hello();
  fake.pass(15_000);
  assert.equal(fake.socket.sent.length, 1);
  assert.match(fake.socket.sent[0]!, /"op":"ping"/);
  fake.socket.events.received(`{"id":${2 ** 53 - 1},"event":"pong","data":{"now":""}}`);
  fake.pass(14_000);
  assert.equal(fake.connection.live, true);
  fake.pass(16_000);
  assert.equal(fake.connection.live, false);
});

test('a frame that cannot be read begins the connection anew', () => {
  const fake = new Fake();
  fake.connection.start();
  fake.hello();
  fake.socket.events.received('{broken');
  assert.equal(fake.connection.state.phase, 'reconnecting');
  assert.equal(fake.sockets[0]!.open, false);
});

function live(text = 'SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k WINDOWING TUMBLING(1000, TIME)') {
  const sent: Array<{ [name: string]: Json }> = [];
  let id = 0;
  let time = 0;
  const query = new LiveQuery({ text, parameters: [], dialect: 'native' }, (frame) => sent.push(parseJson(frame) as { [name: string]: Json }), () => (id += 1), () => (time += 100));
  const frame = (event: string, data: Json, number: number | null = null) => {
    const body = formatJson(data);
    query.frame({ id: query.subscription, event, number, text: body, bytes: utf8Bytes(body) });
  };
  const emit = (number: number, records: Json[], window: Json = { kind: 'tumbling', number, start: '2026-01-01T00:00:00Z', end: `2026-01-01T00:00:${String(number % 60).padStart(2, '0')}Z` }) =>
    frame('emit', { records, meta: { window, counts: { seen: number, matched: 0, mistyped: 0, late: 0, dropped: 0, expression_errors: 0 } } }, number);
  return { query, sent, frame, emit };
}

test('after each loss the query goes on behind the last emit, without gap or double', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -3, max: 4 }), { maxLength: 30 }), (steps) => {
      const { query, sent, frame, emit } = live();
      query.connect();
      frame('started', { query: 'Q', columns: null });
      let server = 0;
      for (const step of steps) {
        if (step >= 0) {
          for (let i = 0; i < step; i += 1) emit((server += 1), [{ k: 'a', n: server }]);
          continue;
        }
        query.disconnect();
        const missed = -step;
        server += missed;
        query.connect();
        const attach = sent[sent.length - 1]!;
        assert.equal(attach.op, 'attach');
        frame('started', { query: 'Q', columns: null });
        // The server may repeat some that were read.
        for (let n = Math.max(1, Number(attach.after ?? 0) - 1); n <= server; n += 1) emit(n, [{ k: 'a', n }]);
      }
      const got = [...query.emits.range(0, 1e9)].map((entry) => entry.value.records[0]?.n);
      assert.deepEqual(got, Array.from({ length: server }, (_, i) => i + 1));
      assert.deepEqual(query.gaps, []);
    }),
  );
});

test('a query that the server no longer knows is asked again, and the gap is marked', () => {
  const { query, sent, frame, emit } = live();
  query.connect();
  frame('started', { query: 'Q', columns: null });
  emit(1, [{ k: 'a', n: 1 }]);
  query.disconnect();
  assert.equal(query.phase, 'stale');
  query.connect();
  frame('problem', { title: 'No such query', status: 404 });
  assert.equal(sent[sent.length - 1]!.op, 'query');
  frame('started', { query: 'Q2', columns: null });
  emit(1, [{ k: 'a', n: 2 }]);
  assert.equal(query.gaps.length, 1);
  assert.equal(query.emits.get(1)?.value.afterGap, true);
  const picture = compute(query, { ...VIEW, form: 'line' }, newMemory());
  assert.equal(picture.lines?.gaps.length, 1);
  assert.deepEqual(picture.lines?.series[0]?.values, [1, null, 2]);
});

test('credit is renewed for the very bytes that were taken in', () => {
  const { query, sent, frame } = live();
  query.connect();
  frame('started', { query: 'Q', columns: null });
  for (let i = 0; i < 40; i += 1) query.frame({ id: query.subscription, event: 'emit', number: i + 1, text: '{"records":[]}', bytes: 10_000 });
  const credit = sent.filter((one) => one.op === 'credit').reduce((sum, one) => sum + Number(one.bytes), 0);
  assert.ok(400_000 - credit < CREDIT_BYTES / 8 && credit <= 400_000);
});

test('the reason of an end is that of the query; a shutdown ends nothing', () => {
  const { query, frame } = live();
  query.connect();
  frame('started', { query: 'Q', columns: null });
  frame('ended', { reason: 'shutdown' });
  assert.equal(query.over, false);
  query.disconnect();
  query.connect();
  frame('emit', { records: [], meta: { query: { id: 'Q', reason: 'duration' }, window: null } }, 5);
  frame('ended', { reason: 'finished' });
  assert.deepEqual([query.phase, query.endedReason], ['ended', 'duration']);
});

test('a saved answer is shown again as it was', () => {
  const { query, frame, emit } = live();
  query.connect();
  frame('started', { query: 'Q', columns: [{ name: 'k', role: 'key' }, { name: 'n', role: 'measure', aggregate: 'count' }] });
  for (let i = 1; i < 6; i += 1) emit(i, [{ k: 'a', n: 9007199254740993n }]);
  const saved = query.save(100_000)!;
  const again = live().query;
  again.restore(saved, false);
  const view: View = { ...VIEW, form: 'table' };
  assert.deepEqual(compute(again, view, newMemory()).table, compute(query, view, newMemory()).table);
  assert.equal(again.phase, 'ended');
  assert.equal(query.save(100), null);
});

test('after a reload the query is taken up behind the saved answer, and never asked again by itself', () => {
  const { query, frame, emit } = live();
  query.connect();
  frame('started', { query: 'Q', columns: null });
  for (let i = 1; i < 4; i += 1) emit(i, [{ k: 'a', n: i }]);
  const saved = query.save(100_000)!;
  for (const known of [true, false]) {
    const next = live();
    next.query.restore(saved, true);
    next.query.connect();
    assert.deepEqual([next.sent[0]!.op, next.sent[0]!.query, next.sent[0]!.after], ['attach', 'Q', 3]);
    if (known) {
      next.frame('started', { query: 'Q', columns: null });
      next.emit(4, [{ k: 'a', n: 4 }]);
      assert.deepEqual([...next.query.emits.range(0, 9)].map((entry) => entry.value.records[0]?.n), [1, 2, 3, 4]);
      assert.equal(next.query.phase, 'live');
    } else {
      next.frame('problem', { title: 'No such query', status: 404 });
      assert.deepEqual([next.query.phase, next.query.endedReason, next.sent.length], ['ended', 'saved', 1]);
    }
  }
});

const column = (role: Role, name: string = role): Column => ({ name, role, type: '', additive: role === 'measure' });
const choice = (roles: Role[], rest: { windowed?: boolean; rows?: number; top?: boolean; aggregates?: boolean } = {}) =>
  choose({ columns: roles.map((role, i) => column(role, `${role}${i}`)), windowed: rest.windowed ?? true, rows: rest.rows ?? 5, aggregates: rest.aggregates ?? true, top: rest.top ?? false });

test('the form follows the roles', () => {
  assert.equal(choice(['measure', 'measure'], { rows: 1 }), 'value');
  assert.equal(choice(['key', 'measure']), 'line');
  assert.equal(choice(['window_start', 'key', 'measure']), 'line');
  assert.equal(choice(['point', 'measure']), 'line');
  assert.equal(choice(['key', 'measure'], { windowed: false }), 'bar');
  assert.equal(choice(['key', 'key', 'measure']), 'heat');
  assert.equal(choice(['key', 'key', 'measure'], { windowed: false }), 'heat');
  assert.equal(choice(['range', 'measure', 'measure']), 'histogram');
  assert.equal(choice(['key', 'measure'], { top: true }), 'top');
  assert.equal(choice(['measure', 'measure'], { rows: 2 }), 'table');
  assert.equal(choice(['key', 'key', 'key', 'measure']), 'table');
  assert.equal(choice(['key', 'other']), 'table');
  assert.equal(choice(['key', 'measure'], { aggregates: false, windowed: false }), 'table');
});

test('roles that the server does not name come from the text and the values', () => {
  const text = 'SELECT dest.name AS destination, engines, COUNT(*) AS n, AVG(x) AS mean, COUNT(DISTINCT y) AS ys FROM STREAM(s) GROUP BY dest.name, engines WINDOWING TUMBLING(1, TIME)';
  const sample = [{ destination: 'a', engines: 2, n: 5, mean: 1.5, ys: 3, at: '2026-01-01T00:00:00Z', m: {} }];
  const columns = describeColumns(Object.keys(sample[0]!), null, sample, text);
  assert.deepEqual(columns.map((one) => one.role), ['key', 'key', 'measure', 'measure', 'measure', 'time', 'other']);
  assert.deepEqual(columns.filter((one) => one.additive).map((one) => one.name), ['n']);
  const declared = [{ name: 'n', role: 'key' }];
  assert.equal(describeColumns(['n'], declared, [{ n: 5 }], 'SELECT n')[0]?.role, 'key');
});

test('the twelve largest groups and the others add up to all', () => {
  fc.assert(
    fc.property(fc.array(fc.dictionary(fc.constantFrom(...'abcdefghijklmnopqrst'), fc.integer({ min: 1, max: 100 })), { minLength: 1, maxLength: 8 }), (windows) => {
      const { query, frame, emit } = live();
      query.connect();
      frame('started', { query: 'Q', columns: null });
      windows.forEach((groups, i) => emit(i + 1, Object.entries(groups).map(([k, n]) => ({ k, n }))));
      const { lines } = compute(query, { ...VIEW, form: 'line' }, newMemory());
      if (windows.every((groups) => Object.keys(groups).length === 0)) return;
      assert.ok(lines !== null && lines.series.length <= 13);
      windows.forEach((groups, i) => {
        const drawn = lines.series.reduce((sum, series) => sum + (series.values[i] ?? 0), 0);
        assert.equal(drawn, Object.values(groups).reduce((a, b) => a + b, 0));
      });
    }),
  );
});

test('the table sorts and finds as a naive loop does', () => {
  const row = fc.record({ k: fc.string(), n: fc.oneof(fc.integer(), fc.constant(null), fc.bigInt({ min: 2n ** 60n, max: 2n ** 61n })) });
  fc.assert(
    fc.property(fc.array(row, { maxLength: 30 }), fc.string({ maxLength: 1 }), fc.boolean(), (rows, find, descending) => {
      const { query, frame, emit } = live();
      query.connect();
      frame('started', { query: 'Q', columns: [{ name: 'k' }, { name: 'n' }] });
      emit(1, rows);
      const { table } = compute(query, { ...VIEW, form: 'table', find, sort: { column: 'n', descending } }, newMemory());
      const naive = rows
        .filter((one) => find === '' || [one.k, one.n].some((value) => value !== null && String(value).toLowerCase().includes(find.toLowerCase())))
        .sort((a, b) => (a.n === null || b.n === null ? Number(a.n === null) - Number(b.n === null) : (a.n < b.n ? -1 : a.n > b.n ? 1 : 0) * (descending ? -1 : 1)));
      assert.deepEqual(table?.rows.map((one) => [one.cells[0], one.cells[1]]), naive.slice(0, 40).map((one) => [one.k, one.n]));
      assert.equal(table?.total, naive.length);
    }),
  );
});

test('single matches are listed newest first, up to the held moment', () => {
  const { query, frame, emit } = live('SELECT * FROM STREAM(s)');
  query.connect();
  frame('started', { query: 'Q', columns: null });
  emit(1, [{ a: 1 }, { a: 2 }], null);
  emit(2, [{ a: 3 }], null);
  const rows = (at: number | null) => compute(query, { ...VIEW, at }, newMemory()).table?.rows.map((one) => one.cells[0]);
  assert.deepEqual(rows(null), [3, 2, 1]);
  assert.deepEqual(rows(0), [2, 1]);
});

test('long values are cut in cells and counted', () => {
  const { query, frame, emit } = live('SELECT * FROM STREAM(s)');
  query.connect();
  frame('started', { query: 'Q', columns: null });
  emit(1, [{ big: 'x'.repeat(1 << 20), deep: { list: Array.from({ length: 10_000 }, (_, i) => i) } }], null);
  const cells = compute(query, VIEW, newMemory()).table?.rows[0]?.cells as Array<{ text: string; length: number }>;
  assert.equal(cells[0]?.length, 1 << 20);
  assert.equal(cells[0]?.text.length, 200);
  assert.ok((cells[1]?.text.length ?? 0) <= 200);
});

test('bins count every value once', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ noNaN: true, min: -1e6, max: 1e6 })), (values) => {
      const bars = bins(values);
      assert.equal(bars.reduce((sum, bar) => sum + bar.value, 0), values.length);
      assert.ok(bars.length <= 20);
    }),
  );
});
