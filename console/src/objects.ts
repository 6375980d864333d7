/**
 * Data of pages: reads by plain calls and SQL, and the statements that change something.
 *
 * `useWatch` reads as long as the component is mounted and the page is visible. `statement` can only read: the server refuses
 * everything else there. `change` runs DDL; call it from a click only, after the reader has seen the statement.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { documentBase } from './client.ts';
import { type Json, parseJson } from './json.ts';
import { problemOf } from './ndjson.ts';
import { Poller, type Reading, type Surroundings } from './poll.ts';
import { type Problem, isObject } from './protocol.ts';
import { readOnly } from './settings.ts';

export type Row = { [column: string]: Json };

export { readOnly };

/** A call that the server refused, or that did not reach it (`status` 0). */
export class Failure extends Error {
  constructor(
    readonly problem: Problem,
    /** The whole answer, for calls whose problems have more. */
    readonly body: Json = null,
  ) {
    super(problem.detail ?? problem.title);
  }
}

/** The answer of a call that succeeds; throws a `Failure`. */
export async function call(path: string, request: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(new URL(path, documentBase), request);
  } catch (error) {
    if (request.signal?.aborted === true) throw error;
    throw new Failure({ title: 'The server does not answer.', status: 0 });
  }
  if (answer.ok) return answer;
  const copy = answer.clone();
  const problem = await problemOf(answer);
  throw new Failure(problem, await copy.text().then(parseJson, () => null).catch(() => null));
}

/** The JSON answer of `GET path`; throws a `Failure`. */
export async function getJson(path: string, signal?: AbortSignal): Promise<Json> {
  const answer = await call(path, { headers: { accept: 'application/json' }, ...(signal === undefined ? {} : { signal }) });
  return parseJson(await answer.text());
}

/** The answer of `GET path` as text; throws a `Failure`. */
export async function getPlain(path: string, signal?: AbortSignal): Promise<string> {
  return (await call(path, signal === undefined ? {} : { signal })).text();
}

/** The body of an answer that goes on; throws a `Failure`. */
export async function openLines(path: string, headers: { [name: string]: string }, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const { body } = await call(path, { headers: { accept: 'application/x-ndjson', ...headers }, signal });
  if (body === null) throw new Failure({ title: 'The answer has no body.', status: 0 });
  return body;
}

/** Sends `body` as it is; the answer's JSON, null if it has none. */
export async function send(method: 'POST' | 'PUT' | 'DELETE', path: string, body: string | null, signal?: AbortSignal, headers: { [name: string]: string } = {}): Promise<Json> {
  const answer = await call(path, {
    method,
    ...(body === null ? { headers } : { body, headers: { 'content-type': 'application/json', ...headers } }),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await answer.text();
  return text.trim() === '' ? null : parseJson(text);
}

async function sql(path: string, text: string, signal?: AbortSignal): Promise<Row[]> {
  const answer = await call(path, {
    method: 'POST',
    headers: { 'content-type': 'text/plain', accept: 'application/json' },
    body: text,
    ...(signal === undefined ? {} : { signal }),
  });
  const body = await answer.text();
  return rowsOf(body.trim() === '' ? [] : parseJson(body));
}

export function rowsOf(data: Json): Row[] {
  return Array.isArray(data) ? data.filter((row): row is Row => isObject(row)) : [];
}

/** The rows of a statement that changes nothing: SHOW, DESCRIBE, SELECT. */
export const statement = (text: string, signal?: AbortSignal): Promise<Row[]> => sql('v1/sql?read_only=true', text, signal);

/** Runs a statement that changes something. */
export function change(text: string): Promise<Row[]> {
  if (readOnly) return Promise.reject(new Failure({ title: 'This console is read-only.', status: 403 }));
  return sql('v1/sql', text);
}

export function problemOfError(error: unknown): Problem {
  return error instanceof Failure ? error.problem : { title: 'The answer cannot be read.', status: 0, detail: String(error) };
}

export interface Watched<T = Json> {
  data: T | null;
  /** When `data` was read, by this machine's clock. */
  at: number | null;
  /** Why the last read failed. */
  problem: Problem | null;
  staleSince: number | null;
  /** Reads now. */
  again(): void;
}

/** The clock and the timers of the browser. */
export const AROUND: Surroundings = {
  now: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** Reads from now on while the page is visible; the result ends that. */
export function pollWhileVisible<T>(poller: Poller<T>): () => void {
  const visibility = () => poller.show(!document.hidden);
  document.addEventListener('visibilitychange', visibility);
  visibility();
  poller.now();
  return () => {
    document.removeEventListener('visibilitychange', visibility);
    poller.close();
  };
}

const EMPTY: Reading<Json> = { data: null, at: null, failure: null, staleSince: null };

/**
 * Reads `source` every `intervalMs`: an address that begins with `v1/`, or a statement that changes nothing. Null reads nothing.
 * `Infinity` reads once, and again until it succeeds only if `again` is called.
 */
export function useWatch(source: string | null, intervalMs: number): Watched {
  const [state, setState] = useState<{ source: string | null; reading: Reading<Json> }>({ source: null, reading: EMPTY });
  const poller = useRef<Poller<Json> | null>(null);
  useEffect(() => {
    if (source === null) return;
    const read = (signal: AbortSignal): Promise<Json> => (source.startsWith('v1/') ? getJson(source, signal) : statement(source, signal));
    const current = new Poller<Json>(AROUND, read, intervalMs, (reading) => setState({ source, reading }));
    poller.current = current;
    return pollWhileVisible(current);
  }, [source, intervalMs]);
  // The data of another source is never shown as this one's.
  const { data, at, failure, staleSince } = state.source === source ? state.reading : EMPTY;
  return { data, at, problem: failure === null ? null : problemOfError(failure), staleSince, again: () => poller.current?.now() };
}
