/**
 * The frames of `/v1/ws` (sub-protocol `swiftwater.v1`): how they are written and read.
 *
 * Reading splits a frame into its envelope and the JSON text of its `data`, whose bytes are what credit counts. Pieces of a long
 * event are joined here. Knows nothing of sockets or of time. Limits: `PIECES_BYTES_MAX` of pieces per id, more is a fault.
 */
import { type Json, formatJson, parseJson } from './json.ts';
import type { Dialect } from './fragment.ts';

export const SUBPROTOCOL = 'swiftwater.v1';
/** Bytes of `data` that the server may send before it waits for more credit. */
export const CREDIT_BYTES = 1 << 20;
/** The faults of one query that are read. */
const FAULTS_MAX = 100;
/** The most bytes of one event in pieces. */
export const PIECES_BYTES_MAX = 64 << 20;

export type Parameter = string | number | bigint | boolean | null;

export interface Question {
  text: string;
  parameters: Parameter[];
  dialect: Dialect;
  /** The name of a saved query that runs in place of `text`, which then only helps to choose the picture. */
  saved?: string;
}

export interface Hello {
  version: string;
  build: string | null;
  now: string;
  features: string[];
}

/** Problem details, as in HTTP's answers. */
export interface Problem {
  title: string;
  status: number;
  type?: string;
  detail?: string;
  hint?: string;
  line?: number;
  column?: number;
  excerpt?: string;
  /** All faults of a query, the first one included, where there are several. */
  errors?: QueryFault[];
}

export interface QueryFault {
  message: string;
  /** Its place in a document: `/panels/3/source/text`. */
  path?: string;
  hint?: string;
  line?: number;
  column?: number;
}

export interface DeclaredColumn {
  name: string;
  type?: string;
  role?: string;
  aggregate?: string;
}

export interface Incoming {
  /** The subscription; null for a frame that belongs to none. */
  id: number | null;
  event: string;
  /** The number of an emit: what `after` takes. */
  number: number | null;
  /** JSON text of `data`; null while pieces are missing. */
  text: string | null;
  /** Bytes of `data` in this frame. */
  bytes: number;
}

export type Frame = { hello: Hello } | Incoming;

export function queryFrame(id: number, question: Question, lingerMs: number, recordsPerSecondMax: number): string {
  return formatJson({
    id,
    op: 'query',
    ...(question.saved === undefined ? { text: question.text } : { saved: question.saved }),
    parameters: question.parameters,
    ...(question.saved === undefined ? { dialect: question.dialect } : {}),
    linger_ms: lingerMs,
    records_per_second_max: recordsPerSecondMax,
    credit: CREDIT_BYTES,
  });
}

export function attachFrame(id: number, query: string, after: number | null, recordsPerSecondMax: number): string {
  const frame: Json = { id, op: 'attach', query, records_per_second_max: recordsPerSecondMax, credit: CREDIT_BYTES };
  if (after !== null) frame.after = after;
  return formatJson(frame);
}

export function statusFrame(id: number, of: 'streams' | 'queries', intervalMs: number, limit: number): string {
  return formatJson({ id, op: 'status', of, interval_ms: intervalMs, sort: of === 'streams' ? 'rate' : 'newest', limit });
}

export const creditFrame = (id: number, bytes: number): string => formatJson({ id, op: 'credit', bytes });
export const endFrame = (id: number): string => formatJson({ id, op: 'end' });
export const pingFrame = (id: number): string => formatJson({ id, op: 'ping' });

/** The bytes of `text` in UTF-8; a lone surrogate counts as U+FFFD, with 3. */
export function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code < 0x80) continue;
    if (code < 0x800) {
      bytes += 1;
      continue;
    }
    bytes += 2;
    if (code >= 0xd800 && code <= 0xdbff && i + 1 < text.length) {
      const low = text.charCodeAt(i + 1);
      if (low >= 0xdc00 && low <= 0xdfff) i += 1;
    }
  }
  return bytes;
}

/** The usual order of an envelope's members, so that `data` is cut out of the text without parsing it twice. */
const ENVELOPE = /^\{"id":(\d{1,16}|null),"event":"([a-z_]{1,32})"(?:,"number":(\d{1,16}))?,"data":(?=[{[])/;

export class FrameReader {
  private readonly pieces = new Map<number, { texts: string[]; bytes: number }>();

  /** Reads one frame. Throws a `SyntaxError` if it is none of the protocol. */
  read(text: string): Frame {
    const usual = ENVELOPE.exec(text);
    if (usual !== null && text.endsWith('}}')) {
      const data = text.slice(usual[0].length, -1);
      return {
        id: usual[1] === 'null' ? null : Number(usual[1]),
        event: usual[2] as string,
        number: usual[3] === undefined ? null : Number(usual[3]),
        text: data,
        bytes: utf8Bytes(data),
      };
    }
    return this.readOther(text);
  }

  /** Forgets the pieces of a subscription that has ended; of all of them without an id. */
  forget(id?: number): void {
    if (id === undefined) this.pieces.clear();
    else this.pieces.delete(id);
  }

  private readOther(text: string): Frame {
    const frame = parseJson(text);
    if (!isObject(frame)) throw new SyntaxError('a frame must be an object');
    if (isObject(frame.hello)) return { hello: readHello(frame.hello) };
    if (typeof frame.event !== 'string') throw new SyntaxError('a frame must have an `event`');
    const id = typeof frame.id === 'number' ? frame.id : null;
    const number = typeof frame.number === 'number' ? frame.number : null;
    if (typeof frame.text === 'string' && frame.data === undefined && id !== null) {
      return this.piece(id, frame.event, number, frame.text, frame.more === true);
    }
    const data = frame.data === undefined ? '{}' : formatJson(frame.data);
    return { id, event: frame.event, number, text: data, bytes: utf8Bytes(data) };
  }

  private piece(id: number, event: string, number: number | null, text: string, more: boolean): Incoming {
    const bytes = utf8Bytes(text);
    const held = this.pieces.get(id) ?? { texts: [], bytes: 0 };
    held.texts.push(text);
    held.bytes += bytes;
    if (held.bytes > PIECES_BYTES_MAX) {
      this.pieces.delete(id);
      throw new SyntaxError(`an event in pieces has more than ${PIECES_BYTES_MAX} bytes`);
    }
    if (more) {
      this.pieces.set(id, held);
      return { id, event, number, text: null, bytes };
    }
    this.pieces.delete(id);
    return { id, event, number, text: held.texts.join(''), bytes };
  }
}

export function isObject(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function readHello(hello: { [name: string]: Json }): Hello {
  return {
    version: typeof hello.version === 'string' ? hello.version : '',
    build: typeof hello.build === 'string' ? hello.build : null,
    now: typeof hello.now === 'string' ? hello.now : '',
    features: Array.isArray(hello.features) ? hello.features.filter((name) => typeof name === 'string') : [],
  };
}

export function readProblem(data: Json): Problem {
  const problem: Problem = { title: 'The request failed', status: 0 };
  if (!isObject(data)) return problem;
  for (const name of ['title', 'type', 'detail', 'hint', 'excerpt'] as const) {
    const value = data[name];
    if (typeof value === 'string') problem[name] = value;
  }
  for (const name of ['status', 'line', 'column'] as const) {
    const value = data[name];
    if (typeof value === 'number') problem[name] = value;
  }
  if (Array.isArray(data.errors)) problem.errors = data.errors.slice(0, FAULTS_MAX).flatMap(readFault);
  return problem;
}

function readFault(data: Json): QueryFault[] {
  if (!isObject(data) || typeof data.message !== 'string') return [];
  const fault: QueryFault = { message: data.message };
  if (typeof data.hint === 'string') fault.hint = data.hint;
  if (typeof data.path === 'string') fault.path = data.path;
  for (const name of ['line', 'column'] as const) {
    const value = data[name];
    if (typeof value === 'number') fault[name] = value;
  }
  return [fault];
}

export function readColumns(data: Json | undefined): DeclaredColumn[] | null {
  if (!Array.isArray(data)) return null;
  const columns: DeclaredColumn[] = [];
  for (const item of data) {
    if (typeof item === 'string') columns.push({ name: item });
    if (!isObject(item) || typeof item.name !== 'string') continue;
    const column: DeclaredColumn = { name: item.name };
    for (const name of ['type', 'role', 'aggregate'] as const) {
      const value = item[name];
      if (typeof value === 'string') column[name] = value;
    }
    columns.push(column);
  }
  return columns;
}
