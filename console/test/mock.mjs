// A small server that speaks what the page needs: its files with the server's headers, the plain calls, and `/v1/ws`.
// It makes up data from a seed. Tests steer it by `mock.…`; `node test/mock.mjs [PORT]` serves it to a browser.
import { createHash, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, createDeflateRaw } from 'node:zlib';
import { WebSocketServer } from 'ws';
import { newObjects, objectCalls } from './mock_objects.mjs';
import { follow, operationsCalls, operationsState } from './mock_operations.mjs';
import { newSaved, savedCalls } from './mock_saved.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const FRAME_BYTES_MAX = 262144;
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml', '.txt': 'text/plain; charset=utf-8' };

export function policy(nonce) {
  return `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; connect-src 'self'; img-src 'self' data: blob:; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'`;
}

/** A generator of numbers from 0 to 1 that always makes the same ones (mulberry32). */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const CARRIERS = ['UA', 'EV', 'B6', 'DL', 'AA', 'MQ', 'US', '9E', 'WN', 'VX', 'FL', 'AS', 'F9', 'YV', 'HA', 'OO'];
const ORIGINS = ['EWR', 'JFK', 'LGA'];
const DESTS = ['ATL', 'ORD', 'LAX', 'BOS', 'MCO', 'CLT', 'SFO', 'FLL', 'MIA', 'DCA', 'DTW', 'DFW', 'RDU', 'TPA', 'DEN', 'IAH'];

export async function startMock({ port = 0, prefix = '', dist = join(here, '../dist'), seed = 7 } = {}) {
  const random = randomFrom(seed);
  const started = Date.now();
  const queries = new Map();
  const sockets = new Set();
  let queryNumber = 0;
  const mock = {
    requests: [],
    asked: [],
    attached: [],
    /** No WebSocket passes. */
    refuseSockets: false,
    streams: ['flights', 'host'],
    from: 'none',
    features: ['history', 'saved', 'search', 'sql', 'views'],
    mode: 'on',
    objects: newObjects(),
    saved: newSaved(),
    /** Frames that asked a query. */
    frames: [],
    build: '0123456789abcdef',
    history: true,
    clockAheadMs: 0,
    /** The file of the editor is not there. */
    editorMissing: false,
    /** An older server: no completions, no functions. */
    assistance: true,
    /** What was completed. */
    completed: [],
    /** Connections that asked for compressed frames. */
    compressed: 0,
    dropSockets() {
      for (const socket of sockets) socket.terminate();
    },
    ...operationsState(),
    forgetQueries() {
      for (const query of queries.values()) clearInterval(query.timer);
      queries.clear();
    },
    /** The number of emits of each query. */
    windowsMade: () => [...queries.values()].map((query) => query.number),
    close() {
      mock.forgetQueries();
      mock.dropSockets();
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
  const now = () => Date.now() + mock.clockAheadMs;
  const iso = (ms = now()) => new Date(ms).toISOString();
  Object.assign(mock, { now, iso, started });
  const rate = (name, at) => Math.max(0, Math.round((name === 'flights' ? 620 : 90) * (1 + 0.25 * Math.sin(at / 47000) + 0.12 * Math.sin(at / 9000) + 0.1 * (random() - 0.5))));

  function flight() {
    const delay = Math.round(-8 + 60 * random() ** 4 * (1 + 6 * random()));
    const pick = (list, skew = 2) => list[Math.floor(random() ** skew * list.length)];
    return {
      time: iso(),
      flight: 1 + Math.floor(random() * 6000),
      carrier: pick(CARRIERS),
      tailnum: `N${100 + Math.floor(random() * 899)}UA`,
      origin: { faa: pick(ORIGINS, 1), name: 'New York' },
      dest: { faa: pick(DESTS), name: 'Somewhere' },
      distance: 100 + Math.floor(random() * 2400),
      dep_delay: random() < 0.02 ? null : delay,
      cancelled: false,
    };
  }

  const HOSTILE = [
    { name: '<img src=x onerror=alert(1)>', note: '\u202Eevil\u202C and \u0000 control \u0007', amount: 9007199254740993n, ['__proto__']: 'own', formula: '=cmd|calc' },
    { name: 'lone \ud800 surrogate', note: '<script>window.hacked = true</script>', amount: -12345678901234567890n, ['__proto__']: { deep: 1 }, formula: '+1+1' },
    { name: 'javascript:alert(1)', note: 'line\nbreak\ttab \u2028 separator', amount: 5, ['__proto__']: null, formula: '@SUM(A1)' },
  ];

  /** JSON text with `bigint` and with own `__proto__`. */
  function jsonText(value) {
    if (typeof value === 'bigint') return value.toString();
    if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`;
    if (value !== null && typeof value === 'object') return `{${Object.keys(value).map((name) => `${JSON.stringify(name)}:${jsonText(value[name])}`).join(',')}}`;
    return JSON.stringify(value ?? null);
  }

  const count = (scale, skew) => Math.max(1, Math.round(scale * skew * (0.8 + 0.4 * random())));

  /** How a text is answered: columns, milliseconds between emits, and the records of one emit. */
  function plan(text) {
    const flat = text.replace(/\s+/g, ' ');
    const window = Number(/TUMBLING\((\d+)/i.exec(flat)?.[1] ?? 0);
    const column = (name, type, role, aggregate) => ({ name, type, role, ...(aggregate === undefined ? {} : { aggregate }) });
    if (/STREAM\(typed/i.test(flat)) {
      const columns = [column('at', 'TIMESTAMP', 'time'), column('id', 'LONG', 'other'), column('<b>name', 'STRING', 'key'), column('share', 'DOUBLE', 'measure')];
      return { columns, every: 100, most: 3, records: (n) => [{ at: Date.UTC(2026, 10, 30, 12, 0, n), id: n, '<b>name': 'a', share: n / 3 }] };
    }
    if (/STREAM\(hostile/i.test(flat)) return { columns: null, every: 100, most: 3, records: (n) => [HOSTILE[n % HOSTILE.length]] };
    if (/STREAM\(wide/i.test(flat)) return { columns: null, every: 250, records: () => [Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`column_${i}`, i * 7]))] };
    if (/STREAM\(big/i.test(flat)) return { columns: null, every: 200, most: 2, records: (n) => [{ id: n, value: 'x'.repeat(1 << 20) }] };
    if (/STREAM\(fast/i.test(flat)) return { columns: null, every: 20, records: () => Array.from({ length: 200 }, flight) };
    if (/STREAM\(groups/i.test(flat)) {
      const columns = [column('key', 'STRING', 'key'), column('n', 'LONG', 'measure', 'count')];
      return { columns, every: 1000, window: 1000, records: () => Array.from({ length: 10_000 }, (_, i) => ({ key: `key ${i}`, n: count(100, 1 / (1 + i / 50)) })) };
    }
    if (/TOP\(/i.test(flat)) {
      const columns = [column('dest.faa', 'STRING', 'key'), column('Count', 'LONG', 'measure', 'count')];
      const bounds = { 'TOP(10, dest.faa)': { estimated: true, count_error: 6, items: 3000, active: 40 } };
      return { columns, every: window || 1000, window: window || 1000, bounds, records: () => DESTS.slice(0, 10).map((faa, i) => ({ 'dest.faa': faa, Count: 200 - 16 * i })) };
    }
    if (/FREQ\(/i.test(flat)) {
      const columns = [column('Range', 'STRING', 'range'), column('Probability', 'DOUBLE', 'measure'), column('Count', 'DOUBLE', 'measure')];
      const edges = [-20, -10, 0, 10, 20, 30, 40, 50, 60, 80, 100, 120];
      const records = () => {
        const counts = edges.map((_, i) => count(300, Math.exp(-((i - 2) ** 2) / 6)));
        const all = counts.reduce((a, b) => a + b, 0);
        return edges.map((edge, i) => ({ Range: `[${edge} to ${edges[i + 1] ?? '+∞'})`, Probability: counts[i] / all, Count: counts[i] }));
      };
      return { columns, every: window || 1000, window: window || 1000, records };
    }
    const grouped = /GROUP BY ([^,]+?)(?:, ?(.+?))?(?: WINDOWING| HAVING| ORDER| LIMIT|$)/i.exec(flat);
    if (grouped !== null) {
      const [a, b] = [grouped[1].trim(), grouped[2]?.trim()];
      const columns = [column(a, 'STRING', 'key'), ...(b === undefined ? [] : [column(b, 'STRING', 'key')]), column('n', 'LONG', 'measure', 'count')];
      const records = () =>
        b === undefined
          ? CARRIERS.map((carrier, i) => ({ [a]: carrier, n: count(110, 1 / (1 + i / 3)) }))
          : CARRIERS.flatMap((carrier, i) => DESTS.slice(0, 10).map((dest, j) => ({ [a]: carrier, [b]: dest, n: count(80, 1 / (1 + i / 3) / (1 + j / 4)) })));
      return window === 0 ? { columns, every: 300, most: 1, records, reason: 'duration' } : { columns, every: window, window, records };
    }
    if (/COUNT\(|AVG\(/i.test(flat)) {
      const columns = [column('n', 'LONG', 'measure', 'count'), column('average', 'DOUBLE', 'measure', 'avg'), column('p95', 'DOUBLE', 'measure', 'quantile')];
      return { columns, every: window || 1000, window: window || 1000, records: () => [{ n: count(600, 1), average: 8 + 3 * random(), p95: 40 + 12 * random() }] };
    }
    const most = Number(/LIMIT (\d+)/i.exec(flat)?.[1] ?? 0) || undefined;
    return { columns: null, every: 100, most, records: () => Array.from({ length: 1 + Math.floor(random() * 4) }, flight) };
  }

  const fault = (text) => {
    const found = [...text.matchAll(/\bFRM\b|\bBETWEN\b/g)];
    if (found.length === 0) return null;
    const faults = found.map((at) => {
      const before = text.slice(0, at.index).split('\n');
      // Columns count characters, not units.
      const place = { line: before.length, column: [...before[before.length - 1]].length + 1 };
      return at[0] === 'FRM'
        ? { message: 'expected `,` or FROM, found `FRM`', ...place, hint: 'Did you mean FROM rather than `FRM`?' }
        : { message: 'unknown word `BETWEN`', ...place, hint: 'Did you mean BETWEEN?' };
    });
    const { message, ...first } = faults[0];
    return { type: 'urn:swiftwater:problem:query-invalid', title: 'The query cannot be run', status: 400, detail: message, ...first, ...(faults.length > 1 ? { errors: faults } : {}) };
  };

  /** A field that no event has is a likely mistake. */
  const warningsOf = (text) => [...text.matchAll(/\bhots\b/g)].map((at) => {
    const before = text.slice(0, at.index).split('\n');
    return `${before.length}:${[...before[before.length - 1]].length + 1}: no recent event has the field \`hots\``;
  });

  const FUNCTIONS = [
    { name: 'COUNT', kind: 'aggregate', signatures: ['COUNT(*)', 'COUNT(value)'], returns: 'LONG', doc: 'The number of events, or of values that are not null.' },
    { name: 'AVG', kind: 'aggregate', signatures: ['AVG(value)'], returns: 'DOUBLE', doc: 'The average of the values.' },
    { name: 'ABS', kind: 'scalar', signatures: ['ABS(x)'], returns: 'DOUBLE', doc: 'The absolute value <b>of</b> x.' },
  ];
  const OPTIONS = [
    ...['SELECT', 'FROM', 'WHERE', 'GROUP BY', 'STREAM'].map((label) => ({ label, kind: 'keyword', insert: label === 'STREAM' ? 'STREAM(' : label })),
    ...FUNCTIONS.map(({ name, kind, returns, doc }) => ({ label: name, kind: kind === 'aggregate' ? 'aggregate' : 'function', type: returns, doc, insert: `${name}(` })),
    { label: 'carrier', kind: 'path', type: 'STRING', detail: '14 values', insert: 'carrier' },
    { label: 'cancelled', kind: 'path', type: 'BOOLEAN', insert: 'cancelled' },
    { label: 'dep_delay', kind: 'path', type: 'LONG', insert: 'dep_delay' },
    { label: 'h<img src=x onerror=alert(1)>\u202e\u0000', kind: 'path', type: '<b>STRING</b>', detail: '\u202edetail', doc: '<script>window.hacked = true</script>', insert: '"h<img src=x onerror=alert(1)>\u202e"' },
    { label: 'hnothing', kind: '__proto__', insert: 'hnothing' },
  ];

  /** Places are counts of characters. A text in quotes is completed by values. */
  function complete({ text, cursor }) {
    const characters = [...text];
    const before = characters.slice(0, cursor).join('');
    const quoted = /'[^']*$/.exec(before.replace(/'[^']*'/g, (all) => 'x'.repeat(all.length)));
    if (quoted !== null) return { from: [...before.slice(0, quoted.index)].length, to: cursor, options: CARRIERS.map((label) => ({ label, kind: 'value', type: 'STRING', insert: `'${label}'` })) };
    const word = /[\p{L}_][\p{L}\p{N}_]*$/u.exec(before)?.[0] ?? '';
    return { from: cursor - [...word].length, to: cursor, options: OPTIONS.filter(({ label }) => label.toLowerCase().includes(word.toLowerCase())) };
  }

  class Query {
    constructor(text) {
      this.id = `MOCK${String((queryNumber += 1)).padStart(6, '0')}`;
      this.text = text;
      this.plan = plan(text);
      this.received = iso();
      this.number = 0;
      this.seen = 0;
      this.kept = [];
      this.readers = new Set();
      this.ended = false;
      this.begin = now();
      queries.set(this.id, this);
      const { every } = this.plan;
      // The first result comes soon, so that tests need not wait for a whole window.
      this.first = setTimeout(() => this.step(), Math.min(every, 60));
      this.timer = setInterval(() => this.step(), every);
    }

    step() {
      if (this.ended) return;
      const records = this.plan.records(this.number);
      this.number += 1;
      this.seen += records.length * 7;
      const last = this.plan.most !== undefined && this.number >= this.plan.most;
      const end = now();
      const window = this.plan.window === undefined ? null : { kind: 'tumbling', number: this.number, start: iso(end - this.plan.window), end: iso(end), emitted: iso(end) };
      const meta = {
        query: { id: this.id, text: this.text, received: this.received, finished: last ? iso() : null, ...(last ? { reason: this.plan.reason ?? 'limit' } : {}) },
        window,
        stream: { name: 'flights', position: this.seen, lag_ms: Math.floor(random() * 4) },
        counts: { seen: this.seen, matched: this.seen, mistyped: Math.floor(this.number / 5), late: 0, dropped: 0, expression_errors: 0 },
        sketch: { error_bounds: this.plan.bounds ?? {} },
        warnings: [],
      };
      const emit = { number: this.number, text: jsonText({ records, meta }), last };
      this.kept.push(emit);
      if (this.kept.length > 50) this.kept.shift();
      for (const reader of this.readers) reader.emit(emit);
      if (last) this.end('finished');
    }

    end(reason) {
      if (this.ended) return;
      this.ended = true;
      clearInterval(this.timer);
      clearTimeout(this.first);
      for (const reader of this.readers) reader.ended(reason);
    }
  }

  const streamList = () =>
    mock.streams.map((name) => {
      const perSecond = rate(name, now());
      return {
        name, stored: name === 'flights', events: 100_000 + Math.floor((now() - started) / 1000) * perSecond, bytes: 1e8, rejected: 0, position: 1,
        newest_arrival: iso(), events_per_second: perSecond, bytes_per_second: perSecond * 980, queries: queries.size, pending_bytes: 0, lag_ms: 0, stored_lag_ms: 200,
      };
    });

  const calls = {
    'GET v1/server': () => ({ version: '0.1.0', build: mock.build, up_since: iso(started), has_data: true, features: mock.features, default_stream: 'flights', console: { mode: 'on' } }),
    'GET v1/streams': () => ({ streams: streamList() }),
    'GET v1/metrics/history': () => {
      if (!mock.history) return null;
      const families = mock.streams.map((name) => {
        let total = 1e6;
        const values = Array.from({ length: 900 }, (_, i) => {
          total += rate(name, now() - (900 - i) * 1000);
          return name === 'host' && i > 300 && i < 340 ? null : total;
        });
        return { name: 'swiftwater_stream_events_total', labels: { stream: name }, type: 'counter', values };
      });
      return { now: iso(), interval_ms: 1000, from: iso(now() - 900_000), families };
    },
  };

  async function answer(request, response) {
    const url = new URL(request.url, 'http://mock');
    const nonce = randomBytes(16).toString('base64');
    const headers = {
      'content-security-policy': policy(nonce), 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp',
      'x-content-type-options': 'nosniff', 'cache-control': 'no-store',
    };
    const send = (status, body, type = 'application/json') => {
      response.writeHead(status, { ...headers, 'content-type': type });
      response.end(body);
    };
    if (!url.pathname.startsWith(`${prefix}/`)) return send(404, '{}');
    const path = url.pathname.slice(prefix.length + 1);
    mock.requests.push(`${request.method} ${path}`);
    const base = `v1/console/${mock.build}`;
    if (path === '') {
      const page = await readFile(join(dist, 'index.html'), 'utf8');
      const values = { base, nonce, from: mock.from, build: mock.build, mode: mock.mode };
      return send(200, page.replace(/\{\{(\w+)\}\}/g, (_, name) => values[name]), TYPES['.html']);
    }
    if (path.startsWith(`${base}/`)) {
      const name = path.slice(base.length + 1);
      const type = TYPES[/\.\w+$/.exec(name)?.[0]];
      if (!/^[a-z]+\.[a-z]+$/.test(name) || type === undefined || (name === 'editor.js' && mock.editorMissing)) return send(404, '{}');
      return send(200, await readFile(join(dist, name)), type);
    }
    const body = await new Promise((resolve) => {
      const parts = [];
      request.on('data', (part) => parts.push(part));
      request.on('end', () => resolve(Buffer.concat(parts).toString()));
    });
    const operations = operationsCalls(mock, { method: request.method, path, url, headers: request.headers });
    if (operations?.follow === true) {
      response.writeHead(200, { ...headers, 'content-type': operations.type });
      return follow(mock, response, operations.from);
    }
    if (operations !== undefined) return send(operations.status, typeof operations.body === 'string' ? operations.body : JSON.stringify(operations.body), operations.type);
    if (savedCalls(mock, { request, response, url, path, body, headers })) return undefined;
    if (objectCalls(mock, { request, response, url, path, body, send, headers })) return undefined;
    const call = calls[`${request.method} ${path}`];
    if (call !== undefined) {
      const value = call();
      return value === null ? send(404, '{"title":"no such call","status":404}') : send(200, JSON.stringify(value));
    }
    const stream = /^v1\/streams\/([^/]+)\/(recent|paths)$/.exec(path);
    if (stream !== null) return send(200, JSON.stringify(stream[2] === 'recent' ? recent() : paths()));
    if (path === 'v1/functions' && mock.assistance) return send(200, JSON.stringify({ functions: FUNCTIONS }));
    if (path === 'v1/complete' && mock.assistance) {
      mock.completed.push(JSON.parse(body));
      return send(200, JSON.stringify(complete(JSON.parse(body))));
    }
    if (path === 'v1/queries/validate') {
      const text = JSON.parse(body).query;
      const problem = fault(text);
      const { columns, window } = plan(text);
      const facts = { stream: 'flights', columns, windowed: window !== undefined, explain: false, duration_ms: null, warnings: warningsOf(text) };
      return problem === null ? send(200, JSON.stringify(facts)) : send(400, JSON.stringify(problem), 'application/problem+json');
    }
    if (path === 'v1/queries' && request.method === 'POST') {
      const { query: text } = JSON.parse(body);
      mock.asked.push(text);
      const problem = fault(text);
      if (problem !== null) return send(400, JSON.stringify(problem), 'application/problem+json');
      response.writeHead(200, { ...headers, 'content-type': 'application/x-ndjson' });
      const query = new Query(text);
      const reader = { emit: (emit) => response.write(`${emit.text}\n`), ended: () => response.end() };
      query.readers.add(reader);
      response.on('close', () => query.end('client'));
      return undefined;
    }
    return send(404, '{"title":"no such path","status":404}');
  }

  const recent = () => ({ events: Array.from({ length: 12 }, (_, i) => ({ at: iso(now() - i * 30), event: flight() })), of: 12, since: iso(now() - 1000) });
  const path = (name, type, distinct, top) => ({
    path: name, types: { [type]: 1 }, null: 0.01, missing: 0, distinct, least: top[0], greatest: top[top.length - 1], top: top.map((value, i) => ({ value, share: 0.2 / (i + 1) })), example: top[0],
  });
  const paths = () => ({
    events: 3000,
    since: iso(now() - 5000),
    paths: [
      path('time', 'string', 3000, [iso()]), path('carrier', 'string', 16, CARRIERS.slice(0, 10)), path('tailnum', 'string', 2400, ['N123UA']),
      path('origin.faa', 'string', 3, ORIGINS), path('dest.faa', 'string', 90, DESTS.slice(0, 10)), path('distance', 'integer', 210, [1020]), path('dep_delay', 'integer', 300, [-4]),
      path('cancelled', 'boolean', 2, [false, true]), path('h<b>\u202eostile', 'string', 2, ["it's <b>\u202e", 'x'.repeat(199) + '…']),
    ],
  });

  const server = createServer((request, response) => {
    answer(request, response).catch((error) => {
      response.writeHead(500);
      response.end(String(error));
    });
  });
  const socketServer = new WebSocketServer({ noServer: true, handleProtocols: () => 'swiftwater.v1', maxPayload: 1 << 20 });
  server.on('upgrade', (request, socket, head) => {
    const url = new URL(request.url, 'http://mock');
    if (mock.refuseSockets || url.pathname !== `${prefix}/v1/ws`) {
      socket.end('HTTP/1.1 426 Upgrade Required\r\nconnection: close\r\n\r\n');
      return;
    }
    socketServer.handleUpgrade(request, socket, head, (open) => converse(open, url.searchParams.get('compress') === 'deflate'));
  });

  function converse(socket, compressed) {
    sockets.add(socket);
    if (compressed) mock.compressed += 1;
    const subscriptions = new Map();
    const deflate = compressed ? createDeflateRaw() : null;
    deflate?.on('data', (part) => socket.readyState === 1 && socket.send(part));
    const send = (text) => {
      if (socket.readyState !== 1) return;
      if (deflate === null) socket.send(text);
      else {
        deflate.write(`${text}\n`);
        deflate.flush(constants.Z_SYNC_FLUSH);
      }
    };
    const event = (id, name, data) => send(`{"id":${id},"event":"${name}","data":${JSON.stringify(data)}}`);
    send(JSON.stringify({ hello: { version: '0.1.0', build: mock.build, now: iso(), features: mock.features, limits: { frame_bytes_max: FRAME_BYTES_MAX, message_bytes_max: 1 << 20, subscriptions_max: 64, credit_bytes: 1 << 20, linger_ms_max: 600_000 } } }));

    function subscribe(id, query, credit, after) {
      const waiting = query.kept.filter((emit) => after !== null && emit.number > after);
      const subscription = { credit, over: () => query.readers.delete(reader), end: null };
      const push = (emit) => {
        const whole = `{"id":${id},"event":"emit","number":${emit.number},"data":${emit.text}}`;
        subscription.credit -= Buffer.byteLength(emit.text);
        if (Buffer.byteLength(whole) <= FRAME_BYTES_MAX) return send(whole);
        const size = FRAME_BYTES_MAX / 2;
        for (let at = 0; at < emit.text.length; at += size) {
          const more = at + size < emit.text.length;
          send(JSON.stringify({ id, event: 'emit', number: emit.number, ...(more ? { more } : {}), text: emit.text.slice(at, at + size) }));
        }
        return undefined;
      };
      subscription.flush = () => {
        while (waiting.length > 0 && subscription.credit > 0) push(waiting.shift());
        if (waiting.length === 0 && subscription.end !== null) {
          event(id, 'ended', { reason: subscription.end });
          subscriptions.delete(id);
        }
      };
      const reader = {
        emit: (emit) => {
          waiting.push(emit);
          if (waiting.length > 100) waiting.shift();
          subscription.flush();
        },
        ended: (reason) => {
          subscription.end = reason;
          subscription.flush();
        },
      };
      subscriptions.set(id, subscription);
      subscription.query = query;
      query.readers.add(reader);
      event(id, 'started', { query: query.id, text: query.text, received: query.received, columns: query.plan.columns });
      subscription.flush();
      if (query.ended) reader.ended('finished');
    }

    socket.on('message', (message) => {
      const frame = JSON.parse(message.toString());
      if (frame.op === 'query') {
        frame.text ??= mock.saved.get(frame.saved)?.content ?? 'SELECT 1 FRM';
        mock.frames.push(frame);
        mock.asked.push(frame.text);
        const problem = fault(frame.text);
        if (problem !== null) {
          event(frame.id, 'problem', problem);
          event(frame.id, 'ended', { reason: 'failed' });
        } else subscribe(frame.id, new Query(frame.text), frame.credit, 0);
      } else if (frame.op === 'attach') {
        mock.attached.push(frame);
        const query = queries.get(frame.query);
        if (query === undefined) {
          event(frame.id, 'problem', { type: 'urn:swiftwater:problem:not-found', title: 'No such query', status: 404, detail: `no query \`${frame.query}\`` });
          event(frame.id, 'ended', { reason: 'failed' });
        } else subscribe(frame.id, query, frame.credit, frame.after ?? 0);
      } else if (frame.op === 'status' && (frame.of !== 'streams' || frame.sort !== 'rate')) {
        event(frame.id, 'problem', { title: 'The request is not valid', status: 400, detail: 'this is no order of streams' });
        event(frame.id, 'ended', { reason: 'failed' });
      } else if (frame.op === 'status') {
        const tell = () => event(frame.id, 'status', { of: 'streams', now: iso(), streams: streamList() });
        tell();
        const timer = setInterval(tell, frame.interval_ms);
        subscriptions.set(frame.id, { over: () => clearInterval(timer) });
      } else if (frame.op === 'credit') {
        const subscription = subscriptions.get(frame.id);
        if (subscription?.flush !== undefined) {
          subscription.credit += frame.bytes;
          subscription.flush();
        }
      } else if (frame.op === 'end') {
        const subscription = subscriptions.get(frame.id);
        subscription?.over();
        subscription?.query?.end('client');
        subscriptions.delete(frame.id);
        event(frame.id, 'ended', { reason: 'client' });
      } else if (frame.op === 'ping') event(frame.id, 'pong', { now: iso() });
      else event(frame.id ?? null, 'problem', { title: 'A bad frame', status: 400, detail: 'unknown op' });
    });
    socket.on('close', () => {
      sockets.delete(socket);
      for (const subscription of subscriptions.values()) subscription.over();
    });
  }

  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  mock.url = `http://127.0.0.1:${server.address().port}${prefix}/`;
  mock.digest = async (name) => createHash('sha256').update(await readFile(join(dist, name))).digest('hex');
  return mock;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await startMock({ port: Number(process.argv[2] ?? 8099) });
  process.stdout.write(`${mock.url}\n`);
}
