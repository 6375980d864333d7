// The mock's answers for the pages Operations, Search and Cluster. `operationsCalls` answers a request, or returns undefined.

const BOUNDS = [0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
const HOSTILE = '<img src=x onerror=alert(1)>\u202e\u0000';
const problem = (status, detail, more = {}) => ({ status, type: 'application/problem+json', body: { type: 'urn:swiftwater:problem:x', title: 'It failed', status, detail, ...more } });

/** What the tests steer, as members of the mock. */
export const operationsState = () => ({
  /** Every call of these pages is refused. */
  operationsAway: false,
  settings: true,
  /** Made-up queries, so that they can be ended. */
  listed: ['QA', 'QB', 'QH'],
  statements: ['sql-1', 'sql-2'],
  ended: [],
  draining: false,
  drains: [],
  searches: [],
  /** Connections that follow a search. */
  followers: 0,
  followedFrom: [],
  noCorrelation: false,
});

const labels = (given) => (Object.keys(given).length === 0 ? '' : `{${Object.entries(given).map(([name, value]) => `${name}="${value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n')}"`).join(',')}}`);

/** The metrics `seconds` after the mock began: [name, kind, samples]. */
function families(mock, seconds) {
  const streams = [...mock.streams, `h"${HOSTILE}\n`];
  const rate = (i) => [620, 90, 3][i] ?? 1;
  const t = seconds + 900;
  const histogram = (share) => Math.round(t * 40 * share);
  const shares = BOUNDS.map((bound) => 1 - Math.exp(-bound / 0.002));
  const stages = { decode: 0.2, match: 0.15, operate: 0.08, deliver: 0.02 };
  const one = (value) => [[{}, value]];
  return [
    ['process_cpu_seconds_total', 'counter', one(t * 0.8)],
    ['process_resident_memory_bytes', 'gauge', one(3.2e8 + 1e6 * Math.sin(t / 60))],
    ['process_start_time_seconds', 'gauge', one((mock.now() - t * 1000) / 1000)],
    ['swiftwater_http_connections', 'gauge', one(7)],
    ['swiftwater_http_requests_total', 'counter', [[{ route: '/v1/queries', method: 'POST', status: '200' }, 10 + t], [{ route: '/v1/queries', method: 'POST', status: '400' }, 3], [{ route: HOSTILE, method: 'GET', status: '500' }, 2]]],
    ['swiftwater_http_request_seconds_sum', 'counter', [[{ route: '/v1/queries' }, t * 0.004]]],
    ['swiftwater_http_request_seconds_count', 'counter', [[{ route: '/v1/queries' }, 13 + t]]],
    ['swiftwater_unfinished_bytes', 'gauge', one(60e6)],
    ['swiftwater_stream_events_total', 'counter', streams.map((stream, i) => [{ stream }, t * rate(i)])],
    ['swiftwater_stream_bytes_total', 'counter', streams.map((stream, i) => [{ stream }, t * rate(i) * 900])],
    ['swiftwater_stream_lag_seconds', 'gauge', streams.map((stream) => [{ stream }, 0.2])],
    ['swiftwater_queries', 'gauge', one(mock.listed.length)],
    ['swiftwater_records_out_total', 'counter', one(t * 33)],
    ['swiftwater_records_dropped_total', 'counter', one(12)],
    ['swiftwater_read_to_match_seconds_bucket', 'counter', [...BOUNDS.map((le, i) => [{ le: String(le) }, histogram(shares[i])]), [{ le: '+Inf' }, histogram(1)]]],
    ['swiftwater_read_to_match_seconds_count', 'counter', one(histogram(1))],
    ['swiftwater_read_to_match_seconds_sum', 'counter', one(t * 0.1)],
    ['swiftwater_shard_events_total', 'counter', ['0', '1'].map((shard) => [{ shard }, t * 350])],
    ['swiftwater_shard_up_seconds_total', 'counter', ['0', '1'].map((shard) => [{ shard }, t])],
    ['swiftwater_shard_busy_seconds_total', 'counter', ['0', '1'].flatMap((shard) => Object.entries(stages).map(([stage, share]) => [{ shard, stage }, t * share]))],
    ['swiftwater_memory_bytes', 'gauge', [[{ owner: 'pending' }, 230e6], [{ owner: 'state' }, 12e6], [{ owner: 'subscribers' }, 3e6], [{ owner: HOSTILE }, 5]]],
    ['swiftwater_memory_bytes_max', 'gauge', [[{ owner: 'pending' }, 268435456], [{ owner: 'state' }, 1073741824]]],
    ['swiftwater_log_bytes_total', 'counter', one(t * 6e5)],
    ['swiftwater_log_syncs_total', 'counter', one(t * 20)],
    ['swiftwater_log_sync_seconds_total', 'counter', one(t * 0.06)],
    ['swiftwater_log_queued_bytes', 'gauge', one(4096)],
    ['swiftwater_log_file_bytes', 'gauge', one(1.2e9)],
    ['swiftwater_table_lag_events', 'gauge', streams.map((stream, i) => [{ stream }, 100 * i])],
    ['swiftwater_table_files', 'gauge', streams.map((stream) => [{ stream }, 12])],
    ['swiftwater_table_file_bytes', 'gauge', streams.map((stream) => [{ stream }, 8e8])],
    ['swiftwater_table_held_back_total', 'counter', streams.map((stream) => [{ stream }, 0])],
    ['swiftwater_table_failing', 'gauge', streams.map((stream, i) => [{ stream }, i === 1 ? 1 : 0])],
  ];
}

/** The metrics as Prometheus reads them. */
function metricsText(mock, seconds) {
  return families(mock, seconds)
    .map(([name, kind, samples]) => `# HELP ${name} Made up.\n# TYPE ${name} ${kind}\n${samples.map(([given, value]) => `${name}${labels(given)} ${value}\n`).join('')}`)
    .join('');
}

/** The series of `GET v1/metrics/history` that `prefix` or `names` select. */
function historyOf(mock, seconds, prefix, names) {
  const chosen = (name) => names.includes(name) || (prefix !== '' && name.startsWith(prefix));
  const at = [...Array(900).keys()].map((i) => new Map(families(mock, seconds - 899 + i).map(([name, kind, samples]) => [name, { kind, samples }])));
  const last = at[at.length - 1];
  return [...last].filter(([name]) => chosen(name)).flatMap(([name, { kind, samples }]) =>
    samples.filter(([given]) => given.le !== '+Inf').map(([given], i) => ({ name, labels: given, type: kind, values: at.map((second) => second.get(name).samples[i][1]) })),
  );
}

function hit(mock, i, stream = 'flights') {
  const message = i % 7 === 3 ? `read timeout <b>${HOSTILE}</b>` : `read timeout of request ${i}`;
  return {
    stream, offset: 1000 - i, time: mock.iso(mock.now() - i * 1500), score: null,
    event: { level: i % 3 === 0 ? 'error' : 'info', message, took: i * 10, ['__proto__']: { a: [1, null, true] } },
    highlight: { message: [{ text: 'read ' }, { text: 'timeout', match: true }, { gap: true }] },
  };
}

export function operationsCalls(mock, { method, path, url, headers }) {
  if (!/^(metrics|v1\/(settings|sql|queries|cluster|search|activity|streams\/[^/]+\/search|metrics\/history))\b/.test(path)) return undefined;
  const query = url.searchParams;
  const seconds = (Date.now() - mock.started) / 1000;
  const filtered = path === 'v1/metrics/history' && (query.has('name') || query.has('prefix'));
  // Other queries and their lists are those of the other pages.
  if (path === 'v1/queries' && (method !== 'GET' || !query.has('sort') || query.has('prefix'))) return undefined;
  if (path.startsWith('v1/queries/') && !(method === 'DELETE' && mock.listed.includes(path.slice('v1/queries/'.length)))) return undefined;
  if (path === 'v1/sql' && method !== 'GET') return undefined;
  if (path === 'v1/metrics/history' && !filtered) return undefined;
  if (mock.operationsAway) return problem(503, 'the server is shutting down', { hint: 'Wait for its restart.' });
  if (filtered) {
    if (!mock.history) return problem(404, 'no such call');
    return { status: 200, body: { now: mock.iso(), interval_ms: 1000, from: mock.iso(mock.now() - 900_000), left_out: 0, families: historyOf(mock, seconds, query.get('prefix') ?? '', (query.get('name') ?? '').split(',')) } };
  }
  if (path === 'metrics') return { status: 200, type: 'text/plain; version=0.0.4', body: metricsText(mock, seconds) };
  if (path === 'v1/settings') {
    if (!mock.settings) return problem(404, 'no such call');
    const settings = [
      { name: 'search.waiting_max', value: 100, default: 100, origin: 'default', allowed: '1 to 100000', doc: 'Searches that may wait.' },
      { name: 'server.unfinished_bytes_max', value: '64MiB', default: '256MiB', origin: 'environment', allowed: '1MiB or more', doc: 'Limit of unfinished input.' },
      { name: 'data.dir', value: `/data/${HOSTILE}`, default: null, origin: 'file', allowed: '', doc: 'The data directory.' },
    ];
    return { status: 200, body: { settings } };
  }
  if (path === 'v1/queries' && method === 'GET') {
    const texts = { QA: 'SELECT carrier, COUNT(*) FROM STREAM(flights, MAX, TIME) GROUP BY carrier WINDOWING TUMBLING(1000, TIME)', QB: 'SELECT * FROM STREAM(host, MAX, TIME)', QH: `SELECT '${HOSTILE}'` };
    const costs = { QA: 5e8, QB: 1e8, QH: 1e6 };
    const queries = mock.listed.map((id) => ({
      id, text: texts[id] ?? 'SELECT 1', dialect: 'native', stream: id === 'QH' ? `h${HOSTILE}` : id === 'QB' ? 'host' : 'flights', stream_exists: true, received: mock.iso(mock.now() - 600_000), ends: null, finished: null,
      detached: id === 'QB', attached: true, emits: 5, records: 50, dropped: 0, state_bytes: id === 'QB' ? 9e6 : 1e5, lag_ms: 3,
      cost: { candidates: 5, residual_tests: 5, matches: Math.round((id === 'QH' ? 900 : 10) * seconds), bytes_out: Math.round(100 * seconds), cpu_nanos: Math.round((costs[id] ?? 1) * (seconds + 60)) },
    }));
    return { status: 200, body: { queries } };
  }
  const end = /^v1\/(queries|sql)\/([^/]+)$/.exec(path);
  if (end !== null && method === 'DELETE') {
    const id = decodeURIComponent(end[2]);
    const list = end[1] === 'sql' ? mock.statements : mock.listed;
    if (!list.includes(id)) return problem(404, `no ${end[1]} \`${id}\``);
    list.splice(list.indexOf(id), 1);
    mock.ended.push(id);
    return { status: 204, body: '' };
  }
  if (path === 'v1/sql' && method === 'GET') {
    const tasks = [{ stage: 1, task: 0, node: 'http://10.0.0.5:8081', rows_scanned: 1000, bytes_scanned: 50_000 }, { stage: 1, task: 1, node: HOSTILE, rows_scanned: 7, bytes_scanned: 9 }];
    const statements = mock.statements.map((id, i) => ({ id, query: i === 0 ? 'SELECT level, count(*) FROM logs GROUP BY level' : `SELECT '${HOSTILE}'`, elapsed_ms: 4200, rows_scanned: 1_500_000, bytes_scanned: 8e7, rows_returned: 0, percent: i === 0 ? 42.5 : null, tasks: i === 0 ? tasks : [] }));
    return { status: 200, body: { statements } };
  }
  if (path === 'v1/cluster') {
    const node = (name, more) => ({ node: name, address: `http://${name}:8080`, host: '10.0.0.5', version: '0.1.0', roles: ['work', 'serve', 'receive'], state: 'up', works: true, partitions: 8, lag: 120, queries: 2, ...more });
    const partition = (i, more) => ({ stream: 'flights', topic: 'flights', partition: i, node: i % 2 === 0 ? 'a' : 'b', next: 1000, end: 1010, lag: 10, rejected: 0, tombstones: 0, lost: 0, error: null, ...more });
    return {
      status: 200,
      body: {
        cluster: 'c', node: 'a', queries: 3, nodes: [node('a', { state: mock.draining ? 'draining' : 'up', works: !mock.draining }), node('b', {}), node(HOSTILE, { address: null })],
        partitions: [partition(0, {}), partition(1, {}), partition(2, { node: null, next: null, lag: null }), partition(3, { error: `schema 7 is not known ${HOSTILE}` })], warnings: [`node \`${HOSTILE}\` has no address`],
      },
    };
  }
  if (path === 'v1/cluster/queries') return { status: 200, body: { queries: [{ id: 'CQ1', stream: 'flights', text: 'SELECT * FROM STREAM(flights, MAX, TIME)', node: 'b', begins: mock.iso(mock.now() - 90_000) }] } };
  if (path === 'v1/cluster/drain') {
    mock.drains.push(method);
    mock.draining = method === 'POST';
    return { status: 202, body: '' };
  }
  if (path === 'v1/search' && query.has('follow')) return { status: 200, type: 'application/x-ndjson', follow: true, from: headers['last-event-id'] };
  if (path === 'v1/search') {
    mock.searches.push(`${path}?${query}`);
    const words = query.get('q') ?? '';
    if (words.includes('(')) return problem(400, `the search cannot be read: character ${[...words].indexOf('(') + 1}: \`(\` is not closed; character ${[...words].length}: a word is expected`, { hint: 'Write `)` at its end.' });
    if (words === 'nothing') return { status: 200, body: { hits: [], total: 0, facets: {}, ranges: {}, histogram: [], cursor: null, complete: true, meta: { took_ms: 1, warnings: [] } } };
    const drilled = query.getAll('drill').length;
    const page = Number(query.get('cursor') ?? 0);
    const total = drilled > 0 ? 40 : 120;
    const hits = query.get('limit') === '0' ? [] : Array.from({ length: Math.min(50, total - page * 50) }, (_, i) => hit(mock, page * 50 + i, query.get('stream')));
    const facets = Object.fromEntries(query.getAll('facet').map((one) => one.split(';')[0]).map((column) => [column, { values: [{ value: 'info', count: 80 }, { value: 'error', count: 40 }, { value: HOSTILE, count: 1 }, { value: true, count: 1 }], distinct: 4, missing: 3 }]));
    const begin = Math.floor(mock.now() / 60_000) * 60_000 - 20 * 60_000;
    const histogram = query.has('histogram') ? [0, 1, 3, 4, 9, 20].map((minute, i) => ({ time: mock.iso(begin + minute * 60_000), count: 5 + 10 * i })) : [];
    return { status: 200, body: { hits, total, facets, ranges: {}, histogram, cursor: (page + 1) * 50 < total ? String(page + 1) : null, complete: true, meta: { position: 1, took_ms: 4, warnings: [] } } };
  }
  if (/^v1\/streams\/[^/]+\/search\/fields$/.test(path)) {
    const field = (column, distinct, type = 'VARCHAR') => ({ column, type, count: 100, distinct, exact: true, values: [] });
    return { status: 200, body: { fields: [field('level', 2), field('message', 900), field('_time', 100, 'TIMESTAMP'), field('tags', null, 'LIST'), field(`h${HOSTILE}`, 3)], total: 120, meta: {} } };
  }
  const activity = /^v1\/activity\/([^/]+)$/.exec(path);
  if (activity !== null) {
    mock.searches.push(`${path}?${query}`);
    if (mock.noCorrelation) return problem(404, 'no stream has a correlation column');
    const id = decodeURIComponent(activity[1]);
    const event = (i, stream, depth, via) => ({ ...hit(mock, 10 - i, stream), depth, via });
    const events = [event(0, 'calls', 0, { id, column: 'trace_id' }), event(1, 'purchases', 0, { id, column: 'trace_ids' }), event(5, 'calls', 1, { id: `t2${HOSTILE}`, column: 'trace_id' }), event(9, `h${HOSTILE}`, 0, { id, column: 'x' })];
    return { status: 200, body: { events: id === 'none' ? [] : events, total: id === 'none' ? 0 : 4, cursor: null, complete: true, meta: { took_ms: 3, warnings: [] } } };
  }
  return undefined;
}

/** Sends the newest hits, and then one every 150 ms, until the client leaves. */
export function follow(mock, response, from) {
  mock.followers += 1;
  mock.followedFrom.push(from);
  let position = from === undefined ? 0 : Number(from);
  const line = () => {
    position += 1;
    response.write(`${JSON.stringify({ ...hit(mock, 0), offset: 2000 + position, position: String(position) })}\n`);
  };
  if (from === undefined) for (let i = 0; i < 5; i += 1) line();
  const timer = setInterval(line, 150);
  response.on('close', () => {
    clearInterval(timer);
    mock.followers -= 1;
  });
}
