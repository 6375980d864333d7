/** Statements of SQL that the pages make: reads of stored events, and declarations that the reader runs. Pure. */
import { quoteName } from './examples.ts';
import { wellFormed } from './fragment.ts';
import { type Json, formatJson, parseJson } from './json.ts';
import { isObject } from './protocol.ts';
import { isDots } from './text.ts';

/** A name in double quotes: it means exactly this object, whatever its characters. */
export const sqlName = (name: string): string => `"${name.replace(/"/g, '""')}"`;
export const sqlText = (text: string): string => `'${text.replace(/'/g, "''")}'`;

export type Kind = 'STREAM' | 'VIEW' | 'JOB' | 'ALERT' | 'SINK' | 'JOIN';

export const dropStatement = (kind: Kind, name: string): string => `DROP ${kind} ${quoteName(name)}`;
/** An endpoint is named by method and path. */
export const endpointName = (method: string, path: string): string => `${method === 'POST' ? 'POST' : 'GET'} ${sqlText(path)}`;

export const TYPES = ['STRING', 'LONG', 'DOUBLE', 'BOOLEAN', 'TIMESTAMP', 'INTEGER', 'FLOAT', 'JSON', 'LIST[STRING]', 'MAP[STRING]'] as const;

export interface ColumnDraft {
  name: string;
  type: string;
  notNull: boolean;
  /** A constant as SQL writes it; empty: none. */
  otherwise: string;
}

export interface StreamDraft {
  name: string;
  columns: readonly ColumnDraft[];
  store: boolean;
  /** Such as `30 days`; empty: events are not deleted. */
  retention: string;
  quarantine: boolean;
}

const columnText = (column: ColumnDraft): string =>
  `${quoteName(column.name)} ${column.type}${column.notNull ? ' NOT NULL' : ''}${column.otherwise.trim() === '' ? '' : ` DEFAULT ${column.otherwise.trim()}`}`;

export function createStream(draft: StreamDraft): string {
  const columns = draft.columns.filter((column) => column.name.trim() !== '');
  const list = columns.length === 0 ? '' : ` (\n${columns.map((column) => `  ${columnText(column)}`).join(',\n')}\n)`;
  const options = [`store = ${draft.store}`];
  if (draft.retention.trim() !== '') options.push(`retention = ${sqlText(draft.retention.trim())}`);
  if (draft.quarantine) options.push('on_bad_event = quarantine');
  return `CREATE STREAM ${quoteName(draft.name)}${list} WITH (${options.join(', ')})`;
}

export type Alteration =
  | { is: 'add'; column: ColumnDraft }
  | { is: 'type'; column: string; type: string }
  | { is: 'set'; option: string; value: string }
  | { is: 'reset'; option: string }
  /** Of a stream over a topic of Kafka. */
  | { is: 'pause' | 'resume' };

/** Options whose values are words; the others are texts. */
const WORDS = /^(true|false|none|memory|disk|reject|quarantine|\d+)$/;

export function alterStream(name: string, change: Alteration): string {
  const begin = `ALTER STREAM ${quoteName(name)}`;
  switch (change.is) {
    case 'add':
      return `${begin} ADD COLUMN ${columnText(change.column)}`;
    case 'type':
      return `${begin} ALTER COLUMN ${quoteName(change.column)} TYPE ${change.type}`;
    case 'set':
      return `${begin} SET (${change.option} = ${WORDS.test(change.value.trim()) ? change.value.trim() : sqlText(change.value.trim())})`;
    case 'pause':
    case 'resume':
      return `${begin} ${change.is.toUpperCase()}`;
    case 'reset':
      return `${begin} RESET (${change.option})`;
  }
}

/** A live query as the query of a view, which has no duration: `STREAM(s, MAX, TIME)` becomes `STREAM(s)`. */
export const queryOfView = (text: string): string => text.trim().replace(/;\s*$/, '').replace(/(STREAM\s*\(\s*(?:"(?:[^"]|"")*"|[^\s,()"]+))\s*,\s*MAX\s*,\s*TIME\s*\)/gi, '$1)');

export const createView = (name: string, query: string, backfill: boolean): string =>
  `CREATE MATERIALIZED VIEW ${quoteName(name)}${backfill ? ' WITH (backfill = true)' : ''} AS\n${queryOfView(query)}`;

/** Where messages and rows go: a stream by its name, or a webhook by its address. */
const target = (into: string, stream: string): string => (/^https?:/i.test(into.trim()) ? `WEBHOOK ${sqlText(into.trim())}` : `${stream}${quoteName(into.trim())}`);

export const createAlert = (name: string, view: string, condition: string, into: string): string =>
  `CREATE ALERT ${quoteName(name)} ON ${quoteName(view)} WHEN ${condition.trim()} INTO ${target(into, '')}`;

/** Of a query, in parentheses on lines of their own: a comment at its end would hide them. */
export const createAlertOn = (name: string, query: string, condition: string, into: string): string =>
  `CREATE ALERT ${quoteName(name)} ON (\n${query.trim()}\n) WHEN ${condition.trim()} INTO ${target(into, '')}`;

export const createEventSink = (name: string, query: string, into: string): string => `CREATE SINK ${quoteName(name)} FROM (\n${query.trim()}\n) INTO ${target(into, 'STREAM ')}`;

/** Of a view with windows, or of `CHANGES OF view`. */
export function createSink(name: string, view: string, into: string): string {
  const of = /^changes\s+of\s+(\S.*)$/i.exec(view.trim())?.[1];
  return `CREATE SINK ${quoteName(name)} FROM ${of === undefined ? quoteName(view) : `CHANGES OF ${quoteName(of)}`} INTO ${target(into, 'STREAM ')}`;
}

export const createJob = (name: string, schedule: string, statements: string): string =>
  `CREATE JOB ${quoteName(name)} SCHEDULE ${sqlText(schedule.trim())} AS\n${/;\s*\S/.test(statements) ? `$$ ${statements.trim()} $$` : statements.trim().replace(/;\s*$/, '')}`;

/** A page of stored events: from an offset on, those before an offset, the newest, or from a time on (RFC 3339). */
export type Place = { from: number } | { before: number } | { newest: true } | { time: string };

export function storedPage(stream: string, place: Place, limit: number): string {
  const name = sqlName(stream);
  if ('from' in place) return `SELECT * FROM ${name} WHERE _offset >= ${place.from} ORDER BY _offset LIMIT ${limit}`;
  if ('time' in place) return `SELECT * FROM ${name} WHERE _time >= ${sqlText(place.time)}::TIMESTAMPTZ ORDER BY _offset LIMIT ${limit}`;
  const condition = 'before' in place ? ` WHERE _offset < ${place.before}` : '';
  return `SELECT * FROM ${name}${condition} ORDER BY _offset DESC LIMIT ${limit}`;
}

export function quarantined(stream: string, limit: number): string {
  return `SELECT _offset, _time, path, reason, event FROM quarantine WHERE stream = ${sqlText(stream)} ORDER BY _offset DESC LIMIT ${limit}`;
}

/** The statements that list the objects which may depend on others, and how each names them. */
export const DEPENDENTS: ReadonlyArray<{ statement: string; kind: string; name: string; on: readonly string[] }> = [
  { statement: 'SHOW VIEWS', kind: 'view', name: 'view', on: ['stream', 'of_view'] },
  { statement: 'SHOW ALERTS', kind: 'alert', name: 'alert', on: ['view', 'target'] },
  { statement: 'SHOW SINKS', kind: 'sink', name: 'sink', on: ['view', 'stream', 'target'] },
  { statement: 'SHOW JOINS', kind: 'join', name: 'join', on: ['left', 'right', 'stream'] },
  { statement: 'SHOW ENDPOINTS', kind: 'endpoint', name: 'path', on: ['stream', 'view'] },
];

/** The objects in `rows` that name `object`, as `view v`. */
export function dependentsIn(of: (typeof DEPENDENTS)[number], rows: readonly Json[], object: string): string[] {
  const found: string[] = [];
  const targets = [sqlName(object), `STREAM ${object}`, `STREAM ${sqlName(object)}`];
  for (const row of rows) {
    if (!isObject(row)) continue;
    const named = of.on.some((column) => row[column] === object || (column === 'target' && typeof row[column] === 'string' && targets.includes(row[column])));
    const name = row[of.name];
    if (named && typeof name === 'string' && !(of.kind === 'view' && name === object)) found.push(`${of.kind} ${name}`);
  }
  return found;
}

const TIME = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$/i;

/** The server reads a segment in double quotes as a text, without escapes; times and numbers that JSON lacks are bare. */
const segmentOf = (value: Json): string => (typeof value !== 'string' ? formatJson(value) : TIME.test(value) || /^(NaN|-?Infinity)$/.test(value) ? value : `"${value}"`);

/**
 * The segments of a path for a key as the reader writes it: values separated by `/`, or a JSON array of values. Texts of an array are
 * in double quotes, so that the server reads them as texts, and so are `.` and `..`, which a browser takes out of a path.
 */
export function keySegments(text: string): string[] {
  const trimmed = text.trim();
  if (trimmed === '') return [];
  if (trimmed.startsWith('[')) {
    try {
      const values = parseJson(trimmed);
      if (Array.isArray(values)) return values.map((value) => encodeURIComponent(wellFormed(segmentOf(value))));
    } catch {
      // No JSON: the text is a key itself.
    }
  }
  return trimmed.split('/').map((part) => encodeURIComponent(wellFormed(isDots(part.trim()) ? segmentOf(part.trim()) : part.trim())));
}
