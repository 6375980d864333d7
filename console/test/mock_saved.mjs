// The mock server's saved objects and short links (`v1/saved/…`), and SQL with parameters, as panels ask it.
// `savedCalls` returns false for everything else.
import { createHash } from 'node:crypto';

export const HOSTILE = '<img src=x onerror=alert(1)>\u202Eevil\u0007';

const NOUNS = { queries: 'saved query', dashboards: 'dashboard', notebooks: 'notebook' };

export function newSaved() {
  return {
    /** By kind and name, such as `queries/busy`. */
    objects: new Map(),
    links: new Map(),
    /** Writes that came, with their conditions. */
    writes: [],
    /** False: in memory only. */
    kept: true,
    /** A problem that each write is answered with. */
    refuse: null,
    /** Statements of panels: text, parameters, whether nothing may change. */
    sql: [],
    /** The number of rows of `SELECT … FROM series`. */
    rows: 30,
    /** The time of the next change; each one is a second later. */
    clock: Date.UTC(2026, 10, 30, 9),
    get(name, kind = 'queries') {
      return this.objects.get(`${kind}/${name}`);
    },
    /** Puts an object as another reader would. */
    put(name, content, comment = null, kind = 'queries', dialect = 'native') {
      const changed = new Date((this.clock += 1000)).toISOString();
      const before = this.get(name, kind);
      const object = { kind, name, comment, revision: (before?.revision ?? 0) + 1, created: before?.created ?? changed, changed, ...(kind === 'queries' && { dialect }), content };
      this.objects.set(`${kind}/${name}`, object);
      return object;
    },
    drop(name, kind = 'queries') {
      this.objects.delete(`${kind}/${name}`);
    },
  };
}

/** Without its content, as in a list. */
function factsOf({ content, ...facts }) {
  const isQuery = facts.kind === 'queries';
  return { ...facts, bytes: Buffer.byteLength(isQuery ? content : JSON.stringify(content)), owner: null, ...(!isQuery && { title: content.title ?? null }) };
}

/** The problem of a content; null: it is valid. A text with FRM is no query, as in the rest of the mock, and a dashboard can be titled `refused`. */
function contentProblem(kind, content) {
  if (kind !== 'queries') {
    return content.title === 'refused' ? { type: 'content-invalid', title: 'The content does not have the form of its kind', detail: 'panel `p1`: no such stream', errors: [{ path: '/panels/0/source/text', message: 'no such stream' }] } : null;
  }
  if (typeof content !== 'string') return { type: 'bad-request', title: 'The request is not valid', detail: 'member `content` is not a text' };
  const errors = [...content.matchAll(/\bFRM\b/g)].map((at) => {
    const lines = content.slice(0, at.index).split('\n');
    return { message: 'expected `,` or FROM, found `FRM`', line: lines.length, column: [...lines[lines.length - 1]].length + 1, hint: 'Did you mean FROM rather than `FRM`?' };
  });
  return errors.length === 0 ? null : { type: 'query-invalid', title: 'The query cannot be run', detail: errors[0].message, errors };
}

function sqlAnswer(saved, query) {
  const at = (minute) => new Date(Date.UTC(2026, 10, 30, 12, minute)).toISOString();
  if (/\bFRM\b/.test(query)) return { type: 'query-invalid', title: 'The statement cannot run', detail: 'expected FROM, found `FRM`', hint: 'Write FROM.', line: 1, column: 8 };
  if (/FROM series/.test(query)) return Array.from({ length: saved.rows }, (_, i) => ({ at: at(i), origin: i % 2 === 0 ? 'EWR' : 'JFK', n: 10 + i }));
  if (/FROM hostile/.test(query)) return [{ ['__proto__']: 'own', '<b>name': HOSTILE, n: 1 }, { '<b>name': 'plain', n: 2 }];
  if (/SELECT DISTINCT carrier/.test(query)) return [{ carrier: 'UA' }, { carrier: HOSTILE }, { carrier: null }];
  if (/COUNT\(\*\)/.test(query)) return [{ n: 42 }];
  return [{ carrier: 'UA', n: 3 }, { carrier: 'DL', n: 2 }];
}

export function savedCalls(mock, { request, response, url, path, body, headers }) {
  const { saved } = mock;
  const answer = (status, value, more = {}) => {
    response.writeHead(status, { ...headers, 'content-type': status < 400 ? 'application/json' : 'application/problem+json', ...more });
    response.end(value === null ? '' : JSON.stringify(value));
    return true;
  };
  const problem = (status, { type = 'not-found', ...members }) => answer(status, { type: `urn:swiftwater:problem:${type}`, status, ...members });
  if (request.method === 'POST' && path === 'v1/sql' && (body.startsWith('{') || /^SELECT DISTINCT carrier/.test(body))) {
    const { query, parameters = [] } = body.startsWith('{') ? JSON.parse(body) : { query: body };
    saved.sql.push({ query, parameters, readOnly: url.searchParams.get('read_only') === 'true' });
    const rows = sqlAnswer(saved, query);
    const columns = [{ name: 'carrier', type: 'STRING', role: 'key' }, { name: 'n', type: 'LONG', role: 'measure', aggregate: 'count' }];
    return Array.isArray(rows) ? answer(200, rows, /FROM typed/.test(query) ? { 'swiftwater-columns': JSON.stringify(columns) } : {}) : problem(400, rows);
  }
  const found = /^v1\/saved\/([^/]+)(?:\/([^/]+))?$/.exec(path);
  if (found === null) return false;
  if (!mock.features.includes('saved')) return problem(404, { title: 'no such path' });
  const [, kind] = found;
  const name = found[2] === undefined ? null : decodeURIComponent(found[2]);
  if (kind === 'links') return links(saved, { request, name, body, answer, problem });
  if (!Object.hasOwn(NOUNS, kind)) return problem(404, { title: 'no such path' });
  return name === null ? list(saved, { kind, url, answer }) : one(saved, { kind, name, request, body, answer, problem });
}

function list(saved, { kind, url, answer }) {
  const [prefix, after] = [url.searchParams.get('prefix') ?? '', url.searchParams.get('after')];
  const most = Number(url.searchParams.get('limit') ?? 1000);
  const byChange = url.searchParams.get('sort') === 'changed';
  const all = [...saved.objects.values()].filter((object) => object.kind === kind && object.name.startsWith(prefix) && (after === null || object.name > after));
  all.sort((a, b) => (byChange ? b.changed.localeCompare(a.changed) : a.name < b.name ? -1 : 1));
  return answer(200, { objects: all.slice(0, most).map(factsOf), next: all.length > most && !byChange ? all[most - 1].name : null, kept: saved.kept });
}

function one(saved, { kind, name, request, body, answer, problem }) {
  const noun = NOUNS[kind];
  const now = saved.get(name, kind);
  const whole = (status, object) => answer(status, { ...factsOf(object), kept: saved.kept, content: object.content }, { etag: `"${object.revision}"` });
  const absent = () => problem(404, { title: 'The object does not exist', detail: `no ${noun} \`${name}\`` });
  if (!/^[\w.-]{1,128}$/.test(name)) return problem(400, { type: 'bad-request', title: 'The request is not valid', detail: `\`${name}\` cannot be the name of a ${noun}: it has a character other than letters, digits, \`_\`, \`-\` and \`.\`` });
  if (request.method === 'GET') return now === undefined ? absent() : whole(200, now);
  const [wanted, none] = [request.headers['if-match'], request.headers['if-none-match']];
  saved.writes.push({ method: request.method, name, wanted, none });
  if (saved.refuse !== null) return problem(saved.refuse.status, saved.refuse);
  if ((none === '*' && now !== undefined) || (wanted !== undefined && wanted !== `"${now?.revision}"`)) {
    const title = 'The object has another state than the request expects';
    const detail = now === undefined ? `there is no ${noun} \`${name}\`, and the request expects one` : `${noun} \`${name}\` has revision ${now.revision}, and the request expects another state`;
    return problem(412, { type: 'precondition-failed', title, detail, ...(now !== undefined && { revision: now.revision, changed: now.changed }) });
  }
  if (request.method === 'DELETE') {
    if (now === undefined) return absent();
    saved.drop(name, kind);
    return answer(204, null);
  }
  const { comment, content, dialect } = JSON.parse(body);
  const fault = contentProblem(kind, content);
  if (fault !== null) return problem(400, fault);
  return whole(now === undefined ? 201 : 200, saved.put(name, content, comment, kind, dialect));
}

function links(saved, { request, name, body, answer, problem }) {
  if (request.method === 'POST' && name === null) {
    const { state } = JSON.parse(body);
    if (Buffer.byteLength(state) > 65_536) return problem(413, { type: 'limit-passed', title: 'A limit was exceeded', detail: 'a state has at most 65,536 bytes' });
    const key = createHash('sha256').update(state).digest('base64url').slice(0, 10);
    saved.links.set(key, state);
    return answer(200, { key, kept: saved.kept });
  }
  const state = name === null ? undefined : saved.links.get(name);
  return state === undefined ? problem(404, { title: 'The object does not exist', detail: `no link \`${name}\`` }) : answer(200, { key: name, state });
}
