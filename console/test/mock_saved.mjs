// The mock server's saved objects (`/v1/saved/…`), and SQL with parameters, as panels ask it. `savedCalls` returns false for everything else.

export const HOSTILE = '<img src=x onerror=alert(1)>\u202Eevil\u0007';

export function newSaved() {
  return {
    kept: true,
    /** By kind, then by name. */
    kinds: { queries: new Map(), dashboards: new Map(), notebooks: new Map() },
    revision: 0,
    /** Statements of panels: text, parameters, whether nothing may change. */
    sql: [],
    /** The number of rows of `SELECT … FROM series`. */
    rows: 30,
    refuse: null,
  };
}

const iso = (ms = Date.now()) => new Date(ms).toISOString();

/** Saves as the server does, for tests. */
export function putSaved(saved, kind, name, content, comment = null) {
  const before = saved.kinds[kind].get(name);
  saved.revision += 1;
  const object = { kind, name, comment, revision: saved.revision, created: before?.created ?? iso(), changed: iso(Date.now() + saved.revision), bytes: JSON.stringify(content).length, owner: null, title: kind === 'queries' ? null : (content.title ?? null), kept: saved.kept, content };
  saved.kinds[kind].set(name, object);
  return object;
}

function answerSql(saved, query) {
  if (/\bFRM\b/.test(query)) return { status: 400, problem: { type: 'urn:swiftwater:problem:query-invalid', title: 'The statement cannot run', status: 400, detail: 'expected FROM, found `FRM`', hint: 'Write FROM.', line: 1, column: 8 } };
  if (/FROM series/.test(query)) return Array.from({ length: saved.rows }, (_, i) => ({ at: iso(Date.UTC(2026, 10, 30, 12, i)), origin: i % 2 === 0 ? 'EWR' : 'JFK', n: 10 + i }));
  if (/FROM hostile/.test(query)) return [{ ['__proto__']: 'own', '<b>name': HOSTILE, n: 1 }, { '<b>name': 'plain', n: 2 }];
  if (/SELECT DISTINCT carrier/.test(query)) return [{ carrier: 'UA' }, { carrier: HOSTILE }, { carrier: null }];
  if (/COUNT\(\*\)/.test(query)) return [{ n: 42 }];
  return [{ carrier: 'UA', n: 3 }, { carrier: 'DL', n: 2 }];
}

/** JSON text with own `__proto__`. */
const text = (value) => JSON.stringify(value);

export function savedCalls(mock, { request, url, path, body, send, headers }) {
  const { saved } = mock;
  const problem = (status, title, more = {}) => (send(status, JSON.stringify({ type: 'urn:swiftwater:problem:saved', title, status, ...more }), 'application/problem+json'), true);
  if (request.method === 'POST' && path === 'v1/sql' && (body.startsWith('{') || /^SELECT DISTINCT carrier/.test(body))) {
    const { query, parameters = [] } = body.startsWith('{') ? JSON.parse(body) : { query: body };
    saved.sql.push({ query, parameters, readOnly: url.searchParams.get('read_only') === 'true' });
    const rows = answerSql(saved, query);
    if (/FROM typed/.test(query)) headers['swiftwater-columns'] = JSON.stringify([{ name: 'carrier', type: 'STRING', role: 'key' }, { name: 'n', type: 'LONG', role: 'measure', aggregate: 'count' }]);
    return Array.isArray(rows) ? (send(200, text(rows)), true) : problem(rows.status, rows.problem.title, rows.problem);
  }
  const place = /^v1\/saved\/(queries|dashboards|notebooks)(?:\/(.+))?$/.exec(path);
  if (place === null) return false;
  if (saved.refuse !== null) return problem(saved.refuse, 'Saved objects cannot be read now', { detail: 'the disk is full' });
  const objects = saved.kinds[place[1]];
  if (place[2] === undefined) {
    const [prefix, limit, after] = ['prefix', 'limit', 'after'].map((name) => url.searchParams.get(name));
    const all = [...objects.values()].filter(({ name }) => name.startsWith(prefix ?? '') && (after === null || name > after)).sort((a, b) => (a.name < b.name ? -1 : 1));
    const most = Number(limit ?? 100);
    const page = all.slice(0, most).map(({ content, kept, ...facts }) => facts);
    return (send(200, text({ objects: page, next: all.length > most ? page[most - 1].name : null, kept: saved.kept })), true);
  }
  const name = decodeURIComponent(place[2]);
  const now = objects.get(name);
  const match = request.headers['if-match'];
  if (request.method === 'GET') return now === undefined ? problem(404, 'There is no such dashboard', { detail: `no dashboard \`${name}\`` }) : (send(200, text(now)), true);
  const stale = (match !== undefined && match !== `"${now?.revision}"`) || (request.headers['if-none-match'] === '*' && now !== undefined);
  if (stale) return problem(412, 'The object was changed meanwhile', { detail: now === undefined ? 'it was deleted' : `\`${name}\` has revision ${now.revision}`, revision: now?.revision ?? null, changed: now?.changed ?? null });
  if (request.method === 'DELETE') {
    if (now === undefined) return problem(404, 'There is no such dashboard');
    objects.delete(name);
    return (send(204, ''), true);
  }
  if (!/^[\w.-]{1,128}$/.test(name)) return problem(400, 'The name is not valid', { detail: `name \`${name}\` has a character other than letters, digits, \`_\`, \`-\`, \`.\`` });
  const { content, comment } = JSON.parse(body);
  if (content.title === 'refused') return problem(400, 'The content is not valid', { detail: 'panel `p1`: no such stream', errors: [{ message: 'no such stream', path: '/panels/0/source/text' }] });
  return (send(now === undefined ? 201 : 200, text(putSaved(saved, place[1], name, content, comment))), true);
}
