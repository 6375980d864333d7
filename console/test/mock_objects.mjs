// The mock server's objects: streams by page, queries, stored events, views with changes, jobs, alerts, sinks, joins, endpoints.
// `objectCalls` answers what the pages of objects ask for; it returns false for everything else.

const HOSTILE = '<img src=x onerror=alert(1)>\u202Eevil';

export function newObjects() {
  return {
    /** Statements that changed something. */
    changes: [],
    /** Statements that only read. */
    reads: [],
    ended: [],
    sent: [],
    dropped: new Set(),
    streams: null,
    empty: false,
    feeds: new Set(),
    rows: [
      { page: '/cart', n: 12, note: HOSTILE },
      { page: '/home', n: 40, note: null },
      { page: 'a b/c', n: 9007199254740993n, note: 'text' },
    ],
    jobEnabled: true,
    fail: null,
  };
}

function jsonText(value) {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`;
  if (value !== null && typeof value === 'object') return `{${Object.keys(value).map((name) => `${JSON.stringify(name)}:${jsonText(value[name])}`).join(',')}}`;
  return JSON.stringify(value ?? null);
}

const iso = (ms = Date.now()) => new Date(ms).toISOString();

function streamOf(name, index) {
  return {
    name, stored: name !== 'host', events: 1_000_000 - index, bytes: 1e9, rejected: name === 'flights' ? 3 : 0, position: 1_000_000 - index, newest_arrival: iso(),
    events_per_second: Math.max(0, 600 - index), bytes_per_second: 1000, queries: name === 'flights' ? 1 : 0, pending_bytes: 0, lag_ms: name === 'flights' ? 12 : 0, stored_lag_ms: 200,
  };
}

const COMPARE = { rate: 'events_per_second', events: 'events', queries: 'queries', lag: 'lag_ms' };

function streamPage(names, url) {
  const [prefix, sort, limit, after] = ['prefix', 'sort', 'limit', 'after'].map((name) => url.searchParams.get(name));
  const all = names.map(streamOf).filter((one) => one.name.startsWith(prefix ?? ''));
  const column = COMPARE[sort];
  all.sort((a, b) => (column === undefined ? 0 : b[column] - a[column]) || (a.name < b.name ? -1 : 1));
  const rest = after === null ? all : all.filter((one) => one.name > after);
  const most = Number(limit ?? 10_000);
  const streams = rest.slice(0, most);
  return { streams, ...(column === undefined && rest.length > most ? { next: streams[most - 1].name } : {}) };
}

const created = '2026-11-30T09:00:00.000Z';

function stored(text) {
  const limit = Number(/LIMIT (\d+)/.exec(text)?.[1] ?? 50);
  const row = (offset) => ({ _offset: offset, _time: iso(Date.UTC(2026, 10, 30) + offset * 1000), carrier: 'UA', note: offset === 0 ? HOSTILE : 'plain', _event: null });
  const from = /_offset >= (\d+)/.exec(text);
  if (from !== null) return Array.from({ length: Math.max(0, Math.min(limit, 120 - Number(from[1]))) }, (_, i) => row(Number(from[1]) + i));
  const before = Number(/_offset < (\d+)/.exec(text)?.[1] ?? 120);
  if (/_time >=/.test(text)) return Array.from({ length: limit }, (_, i) => row(60 + i));
  return Array.from({ length: Math.min(limit, before) }, (_, i) => row(before - 1 - i));
}

function answerSql(objects, text) {
  const some = (rows) => (objects.empty ? [] : rows);
  const isDropped = (kind, name) => objects.dropped.has(`${kind} ${name}`);
  if (/^SHOW CREATE STREAM/.test(text)) {
    if (!/flights/.test(text)) return { status: 404, problem: { title: 'The stream does not exist', status: 404, detail: 'stream does not exist' } };
    return [{ stream: 'flights', statement: 'CREATE STREAM flights (\n  carrier STRING NOT NULL\n) WITH (store = true, on_bad_event = quarantine)' }];
  }
  if (/^DESCRIBE STREAM/.test(text)) return [{ column: 'carrier', type: 'STRING', nullable: false, default: null, checks: "CHECK (carrier != '')" }, { column: HOSTILE, type: 'LONG', nullable: true, default: '0', checks: '' }];
  if (/^SHOW PARTITIONS/.test(text)) return some([{ stream: 'flights', topic: 'air', partition: 0, position: 90, end: 100, lag: 10, lost: 0, skipped: 0, tombstones: 0, rejected: null, state: 'reading', error: null, node: null }]);
  if (/FROM quarantine/.test(text)) return some([{ _offset: 4, _time: created, path: 'carrier', reason: `column \`carrier\`: expected STRING ${HOSTILE}`, event: '{"carrier":5}' }]);
  if (/system\.job_runs/.test(text)) return [{ job: 'hourly', run: 8, scheduled_at: created, started_at: created, ended_at: null, state: 'failed', attempts: 2, seconds: 1.5, rows: 0, error: 'table `totals` does not exist', reads: null }];
  if (/^SELECT \* FROM "flights"/.test(text)) return stored(text);
  if (/^SHOW VIEWS/.test(text)) return some([{ view: 'pages', stream: 'flights', of_view: null }]);
  if (/^SHOW CREATE VIEW/.test(text)) return [{ view: 'pages', statement: 'CREATE MATERIALIZED VIEW pages AS\nSELECT page, COUNT(*) AS n FROM STREAM(flights) GROUP BY page' }];
  if (/^SHOW CREATE/.test(text)) return [{ statement: text.replace(/^SHOW /, '') }];
  if (/^DESCRIBE JOB/.test(text)) return [{ job: 'hourly', created, enabled: true, statement: "CREATE JOB hourly SCHEDULE '0 * * * *' AS INSERT INTO totals SELECT 1" }];
  if (/^SHOW JOBS/.test(text)) {
    return some(isDropped('JOB', 'hourly') ? [] : [{ job: 'hourly', schedule: '0 * * * *', time_zone: 'Europe/Berlin', enabled: objects.jobEnabled, last_run: created, state: 'failed', error: `no table ${HOSTILE}`, next_run: objects.jobEnabled ? created : null, timeout_seconds: 60, runs: 7, failures: 1, retries: 0, rows: 1234, seconds: 9.5 }]);
  }
  if (/^SHOW ALERTS/.test(text)) {
    const alert = (name, firing) => ({ alert: name, view: 'pages', query: null, condition: 'n > 100', target: 'alerts', created, firing, position: 5, messages: 3, refused: 0, dead: 0, passed_over: 0, failing: null });
    return some([alert('quiet', 0), alert('popular', 2), alert(`bad ${HOSTILE}`, 0)]);
  }
  if (/^SHOW SINKS/.test(text)) return some([{ sink: 'out', view: 'pages', stream: null, target: "WEBHOOK 'https://example.com'", created, deliveries: 5, rows: 50, dead_rows: 2, behind_ms: 3000, changes_held: null, changes_lost: null, events_behind: null, events_lost: null, tries: 3, failing: 'the server answered 503' }]);
  if (/^SHOW JOINS/.test(text)) return some([{ join: 'pairs', left: 'flights', right: 'host', stream: 'paired', created, pairs: 9, waiting: 1, refused: 0, late: 0, ahead: 0, untimed: 0, passed_over: 0, kept_events: 2, kept_bytes: 4096, held_bytes: 1024, behind_bytes: 0, failing: null }]);
  if (/^SHOW ENDPOINTS/.test(text)) return some([{ method: 'GET', path: '/pages/{page}', stream: null, view: 'pages', created, requests: 12, failing: null }, { method: 'POST', path: '/click', stream: 'flights', view: null, created, requests: 3, failing: null }]);
  if (/^DESCRIBE ENDPOINT GET/.test(text)) return [{ parameter: 'page', place: 'path', type: 'STRING', nullable: false, default: null, checks: '' }];
  if (/^DESCRIBE ENDPOINT/.test(text)) return [{ parameter: 'page', place: 'body', type: 'STRING', nullable: false, default: null, checks: '' }];
  return null;
}

export function objectCalls(mock, { request, response, url, path, body, send, headers }) {
  const objects = mock.objects;
  const json = (value) => (send(200, jsonText(value)), true);
  const problem = (status, title, more = {}) => (send(status, JSON.stringify({ type: 'urn:swiftwater:problem:bad', title, status, ...more }), 'application/problem+json'), true);
  if (objects.fail !== null && objects.fail.test(path)) return problem(503, 'The server shuts down');
  const names = objects.streams ?? mock.streams;
  if (request.method === 'GET' && path === 'v1/streams' && url.search !== '') {
    return json(streamPage(objects.empty ? [] : names, url));
  }
  const stream = /^v1\/streams\/([^/]+)$/.exec(path);
  if (stream !== null) {
    const name = decodeURIComponent(stream[1]);
    const index = names.indexOf(name);
    return index < 0 || objects.dropped.has(`STREAM ${name}`) ? problem(404, 'The stream does not exist') : json({ ...streamOf(name, index), ...(objects.ended.includes('Q1') ? { queries: 0 } : {}) });
  }
  if (request.method === 'POST' && /^v1\/streams\/[^/]+\/events$/.test(path)) {
    objects.sent.push(body);
    const bad = body.indexOf('"bad"');
    if (bad < 0) return json({ accepted: 1, rejected: 0, position: { offset: 5 }, errors: [] });
    const line = body.slice(0, bad).split('\n');
    // As the server answers if it accepts no event of a request.
    return problem(400, 'No event was accepted', { detail: 'no event was accepted', accepted: 0, rejected: 1, position: null, errors: [{ line: line.length, column: line[line.length - 1].length + 1, path: 'bad', message: 'column `bad`: expected LONG, found text' }] });
  }
  if (request.method === 'GET' && path === 'v1/queries') {
    const query = (id, name) => ({ id, text: `SELECT * FROM STREAM(${name}) WHERE note = '${HOSTILE}'`, dialect: 'native', stream: name, stream_exists: true, received: created, ends: null, finished: null, detached: false, attached: true, emits: 1, records: 5, dropped: 0, state_bytes: 2048, lag_ms: 3, cost: { candidates: 1, residual_tests: 1, matches: 5, bytes_out: 100, cpu_nanos: 5_000_000 } });
    const all = [query('Q1', 'flights'), query('Q2', 'flights2')].filter((one) => !objects.ended.includes(one.id));
    return json({ queries: objects.empty ? [] : all });
  }
  const query = /^v1\/queries\/([^/]+)$/.exec(path);
  if (query !== null && request.method === 'DELETE') {
    objects.ended.push(query[1]);
    send(204, '');
    return true;
  }
  if (request.method === 'POST' && path === 'v1/sql') {
    if (url.searchParams.get('read_only') === 'true') {
      objects.reads.push(body);
      const rows = answerSql(objects, body);
      if (rows === null) return problem(400, 'This statement cannot run', { detail: `no answer to ${body}` });
      return Array.isArray(rows) ? json(rows) : problem(rows.status, rows.problem.title, rows.problem);
    }
    objects.changes.push(body);
    if (/^DROP STREAM/.test(body) && !objects.empty) return problem(409, 'The object is in use', { detail: 'view `pages` reads stream `flights`', hint: 'Drop the view first: DROP VIEW pages.' });
    const drop = /^DROP (\w+) (\S+)$/.exec(body);
    if (drop !== null) objects.dropped.add(`${drop[1]} ${drop[2]}`);
    if (/DISABLE$/.test(body)) objects.jobEnabled = false;
    if (/ENABLE$/.test(body)) objects.jobEnabled = true;
    const made = /^CREATE STREAM (\w+)/.exec(body);
    if (made !== null) mock.streams.push(made[1]);
    return json([]);
  }
  if (path === 'v1/views') {
    const view = { name: 'pages', stream: 'flights', of_view: null, query: 'SELECT', created, columns: [{ name: 'page', type: 'STRING' }, { name: 'n', type: 'LONG' }], from: 0, position: 500, committed: 490, lag_events: 3, from_table: false, keys_held: 3, held_bytes: 4096, counts: { events: 500, matched: 400, mistyped: 0, expression_errors: 0, long_keys: 0, late: 2, ahead: 0 }, watermark: null, failing: null };
    const views = [view, { ...view, name: `bad ${HOSTILE}`, failing: 'the disk is full' }].filter((one) => !objects.dropped.has(`VIEW ${one.name}`));
    return json({ views: objects.empty ? [] : views });
  }
  const change = /^v1\/views\/([^/]+)\/changes$/.exec(path);
  if (change !== null) {
    response.writeHead(200, { ...headers, 'content-type': 'application/x-ndjson' });
    const feed = { from: url.searchParams.get('from'), write: (value) => response.write(`${jsonText(value)}\n`), end: () => response.destroy() };
    feed.write({ position: 500 });
    objects.feeds.add(feed);
    response.on('close', () => objects.feeds.delete(feed));
    return true;
  }
  const key = /^v1\/views\/([^/]+)\/keys\/(.+)$/.exec(path);
  if (key !== null) {
    // As the server reads a segment: a text may be in double quotes.
    const written = decodeURIComponent(key[2]);
    const row = objects.rows.find((one) => one.page === written || JSON.stringify(one.page) === written);
    return row === undefined ? problem(404, 'The key does not exist') : json(row);
  }
  if (/^v1\/views\/[^/]+$/.test(path)) {
    const prefix = url.searchParams.get('prefix');
    const rows = objects.rows.filter((row) => prefix === null || row.page === (prefix.startsWith('[') ? JSON.parse(prefix)[0] : prefix));
    const after = url.searchParams.get('after');
    return json(after === null ? { rows: rows.slice(0, 2), next: rows.length > 2 ? 'next' : null, position: 500, age_ms: 20 } : { rows: rows.slice(2), next: null, position: 500, age_ms: 20 });
  }
  if (/^pages\//.test(path)) return json({ n: 12, page: decodeURIComponent(path.slice(6)) });
  if (path === 'click') {
    objects.sent.push(body);
    send(201, '');
    return true;
  }
  return false;
}
