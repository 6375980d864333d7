// The mock server's saved objects and short links: `v1/saved/{kind}`, `v1/saved/links`. `savedCalls` returns false for everything else.
import { createHash } from 'node:crypto';

const KINDS = ['queries', 'dashboards', 'notebooks'];

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
    /** The time of the next change; each one is a second later. */
    clock: Date.UTC(2026, 10, 30, 9),
    /** Puts an object as another reader would. */
    put(name, content, comment = null, kind = 'queries') {
      const key = `${kind}/${name}`;
      const changed = new Date((this.clock += 1000)).toISOString();
      const before = this.objects.get(key);
      const object = { kind, name, comment, revision: (before?.revision ?? 0) + 1, created: before?.created ?? changed, changed, content };
      this.objects.set(key, object);
      return object;
    },
    drop(name, kind = 'queries') {
      this.objects.delete(`${kind}/${name}`);
    },
  };
}

/** Without its content, as in a list. */
function factsOf({ content, ...facts }) {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  return { ...facts, bytes: Buffer.byteLength(text), owner: null, title: typeof content === 'string' ? null : (content.title ?? null) };
}

/** A text with FRM is no query, as in the rest of the mock. */
function faultsOf(kind, content) {
  if (kind !== 'queries') return [];
  if (typeof content !== 'string') return [{ message: 'the content of a query is a text' }];
  return [...content.matchAll(/\bFRM\b/g)].map((at) => {
    const lines = content.slice(0, at.index).split('\n');
    return { message: 'expected `,` or FROM, found `FRM`', line: lines.length, column: [...lines[lines.length - 1]].length + 1, hint: 'Did you mean FROM rather than `FRM`?' };
  });
}

export function savedCalls(mock, { request, response, url, path, body, headers }) {
  const found = /^v1\/saved\/([^/]+)(?:\/([^/]+))?$/.exec(path);
  if (found === null) return false;
  const { saved } = mock;
  const answer = (status, value, more = {}) => {
    response.writeHead(status, { ...headers, 'content-type': status < 400 ? 'application/json' : 'application/problem+json', ...more });
    response.end(value === null ? '' : JSON.stringify(value));
    return true;
  };
  const problem = (status, title, more = {}) => answer(status, { type: 'urn:swiftwater:problem:saved', title, status, ...more });
  if (!mock.features.includes('saved')) return problem(404, 'no such path');
  const kind = found[1];
  const name = found[2] === undefined ? null : decodeURIComponent(found[2]);
  if (kind === 'links') return links(saved, { request, name, body, answer, problem });
  if (!KINDS.includes(kind)) return problem(404, 'no such path');
  const whole = (object) => ({ ...factsOf(object), kept: saved.kept, content: object.content });
  if (name === null) {
    const [prefix, after] = [url.searchParams.get('prefix') ?? '', url.searchParams.get('after')];
    const most = Number(url.searchParams.get('limit') ?? 100);
    const all = [...saved.objects.values()].filter((one) => one.kind === kind && one.name.startsWith(prefix) && (after === null || one.name > after)).sort((a, b) => (a.name < b.name ? -1 : 1));
    return answer(200, { objects: all.slice(0, most).map(factsOf), next: all.length > most ? all[most - 1].name : null, kept: saved.kept });
  }
  const key = `${kind}/${name}`;
  const object = saved.objects.get(key);
  const absent = () => problem(404, 'The saved object does not exist', { detail: `no saved object \`${name}\`` });
  if (request.method === 'GET') return object === undefined ? absent() : answer(200, whole(object), { etag: `"${object.revision}"` });
  const [wanted, none] = [request.headers['if-match'], request.headers['if-none-match']];
  saved.writes.push({ method: request.method, name, wanted, none });
  if (saved.refuse !== null) return problem(saved.refuse.status, saved.refuse.title, saved.refuse);
  const conflict = (none === '*' && object !== undefined) || (wanted !== undefined && wanted !== `"${object?.revision}"`);
  if (conflict) return problem(412, 'The object was changed', object === undefined ? { detail: 'it does not exist' } : { revision: object.revision, changed: object.changed });
  if (request.method === 'DELETE') {
    if (object === undefined) return absent();
    saved.objects.delete(key);
    return answer(204, null);
  }
  const { comment, content } = JSON.parse(body);
  const errors = faultsOf(kind, content);
  if (errors.length > 0) return problem(400, 'The content is not valid', { detail: errors[0].message, errors });
  if (!/^[\w.-]{1,128}$/.test(name)) return problem(400, 'The name is not valid', { detail: `\`${name}\` is no name`, hint: 'Use letters, digits, `_`, `-` and `.`.' });
  const made = saved.put(name, content, comment, kind);
  return answer(object === undefined ? 201 : 200, whole(made), { etag: `"${made.revision}"` });
}

function links(saved, { request, name, body, answer, problem }) {
  if (request.method === 'POST' && name === null) {
    const { state } = JSON.parse(body);
    if (Buffer.byteLength(state) > 65_536) return problem(413, 'The state is too large', { detail: 'a state has at most 65,536 bytes' });
    const key = createHash('sha256').update(state).digest('base64url').slice(0, 10);
    saved.links.set(key, state);
    return answer(201, { key });
  }
  const state = name === null ? undefined : saved.links.get(name);
  return state === undefined ? problem(404, 'The link does not exist') : answer(200, { key: name, state });
}
