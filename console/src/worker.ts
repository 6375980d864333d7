/**
 * The worker: owns the connection and the data of all results, and posts pictures of them to the page.
 *
 * A result gets at most one picture in `PICTURE_MS`, none while the last is not drawn yet, and none while it is out of sight. If a
 * picture takes long to compute, the next waits four times as long. All results together hold `ALL_BYTES_MAX`: the oldest windows
 * of the largest result leave first.
 */
import { Connection, type Socket, type SocketEvents } from './connection.ts';
import { exportRows } from './export.ts';
import { type Json, formatJson, parseJson } from './json.ts';
import { explains } from './chart_choice.ts';
import { answerRows, hasMore, partsOf } from './dashboards/answers.ts';
import type { Form } from './fragment.ts';
import { LiveQuery, type Row } from './live_query.ts';
import { readQuery } from './ndjson.ts';
import { type Memory, VIEW, type View, compute, newMemory, own } from './picture.ts';
import { SUBPROTOCOL, type Question, endFrame, isObject, readColumns, statusFrame } from './protocol.ts';
import { type FromWorker, type StreamFacts, type ToWorker, readStream } from './wire.ts';

declare const self: DedicatedWorkerGlobalScope;
interface DedicatedWorkerGlobalScope {
  postMessage(message: FromWorker): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
}

const PICTURE_MS = 50;
const REST_PER_WORK = 4;
const ALL_BYTES_MAX = 128 << 20;
const STREAMS_MS = 1000;
const STREAMS_MAX = 200;
/** Without WebSocket each result takes a connection of the six that a browser opens. */
const PLAIN_RESULTS_MAX = 4;

interface Result {
  query: LiveQuery;
  view: View;
  memory: Memory;
  /** A picture is posted and not drawn yet. */
  posted: boolean;
  timer: boolean;
  notBefore: number;
  seenVersion: number;
  dirty: boolean;
  /** Ends the plain request of a result without WebSocket. */
  abort: AbortController | null;
  /** Shares the query of another result, which speaks to the server for it. */
  follows: boolean;
  /** The form for a view that has none. */
  suits: Form | null;
  /** The server has more rows than the answer. */
  more: boolean;
}

const results = new Map<number, Result>();
let base = '';
let lastId = 0;
let connection: Connection | null = null;
let streamsOn = false;
let streamsId: number | null = null;

const now = () => Date.now();
const nextId = () => (lastId += 1);
const post = (message: FromWorker) => self.postMessage(message);

function begin(address: string): void {
  base = address;
  connection = new Connection(
    {
      open: openSocket,
      now,
      random: Math.random,
      after: (ms, run) => {
        const timer = setTimeout(run, ms);
        return () => clearTimeout(timer);
      },
    },
    {
      changed: (state) => {
        post({ is: 'connection', state });
        if (state.phase === 'unavailable') for (const [id, result] of results) connect(id, result);
        if (state.phase !== 'live') pollStreams();
        refresh();
      },
      ready: () => {
        subscribeStreams();
        for (const [id, result] of results) if (result.abort === null) connect(id, result);
      },
      lost: () => {
        streamsId = null;
        for (const result of results.values()) if (result.abort === null && asks(result)) result.query.disconnect();
        refresh();
      },
      frame: (frame) => {
        if (frame.id !== null && frame.id === streamsId) {
          streamsFrame(frame.event, frame.text);
          return;
        }
        for (const [id, result] of results) {
          if (frame.id === null || result.follows || result.query.subscription !== frame.id) continue;
          guarded(result, () => result.query.frame(frame));
          changed(id, result);
        }
        bound();
      },
    },
  );
  connection.start();
  setInterval(refresh, 1000);
}

/** What cannot be read ends its result with a message, and nothing else. */
function guarded(result: Result, run: () => void): void {
  try {
    run();
  } catch (error) {
    result.query.failed({ title: 'The answer cannot be read', status: 0, detail: String(error) });
  }
}

function openSocket(events: SocketEvents): Socket {
  const address = new URL('v1/ws', base);
  const loopback = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(address.hostname);
  const compressed = !loopback && typeof DecompressionStream !== 'undefined';
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  if (compressed) address.searchParams.set('compress', 'deflate');
  const socket = new WebSocket(address, SUBPROTOCOL);
  socket.binaryType = 'arraybuffer';
  const inflate = compressed ? inflater((text) => events.received(text), () => socket.close()) : null;
  socket.onopen = () => events.opened();
  socket.onclose = () => events.closed();
  socket.onmessage = (message: MessageEvent<string | ArrayBuffer>) => {
    if (typeof message.data === 'string') events.received(message.data);
    else inflate?.(message.data);
  };
  return { send: (text) => socket.send(text), close: () => socket.close() };
}

/** Frames out of one raw deflate stream, in which each ends with a newline. */
function inflater(received: (text: string) => void, broken: () => void): (data: ArrayBuffer) => void {
  const stream = new DecompressionStream('deflate-raw');
  const writer = stream.writable.getWriter();
  const reader = stream.readable.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  const read = async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split('\n');
      rest = lines.pop() as string;
      for (const line of lines) if (line !== '') received(line);
    }
  };
  read().catch(broken);
  return (data) => {
    writer.write(new Uint8Array(data)).catch(broken);
  };
}

/** Whether a result asks the server by itself. */
const asks = (result: Result): boolean => !result.follows && !result.query.given;

/** A result has news: it is drawn, and those that follow it. */
function changed(id: number, result: Result): void {
  schedule(id, result);
  for (const [other, follower] of results) if (follower.follows && follower.query === result.query) schedule(other, follower);
}

function connect(id: number, result: Result): void {
  if (!asks(result)) return;
  if (result.query.over || result.abort !== null) return;
  // A plan is one answer: it comes by plain HTTP.
  if (explains(result.query.question.text) || connection?.state.phase === 'unavailable') connectPlain(id, result);
  else if (connection?.live === true) result.query.connect();
  changed(id, result);
}

function connectPlain(id: number, result: Result): void {
  const open = [...results.values()].filter((other) => other.abort !== null && !other.query.over).length;
  if (open >= PLAIN_RESULTS_MAX) {
    result.query.failed({
      title: 'Too many results at once',
      status: 0,
      detail: `without WebSocket, ${PLAIN_RESULTS_MAX} queries run at the same time`,
      hint: 'Stop another query, or let WebSockets pass the proxy.',
    });
    changed(id, result);
    return;
  }
  const { query } = result;
  if (query.query !== null && query.phase === 'asking') {
    // Taken up after a reload, which only a WebSocket can do.
    query.ended({ reason: 'saved' });
    schedule(id, result);
    return;
  }
  const abort = new AbortController();
  result.abort = abort;
  void readQuery(
    base,
    query.question,
    {
      line: (text) => {
        guarded(result, () => query.emit(parseJson(text), text.length, null));
        if (query.over) abort.abort();
        changed(id, result);
        bound();
      },
      problem: (problem) => {
        query.failed(problem);
        changed(id, result);
      },
      ended: (whole) => {
        if (whole) query.ended({ reason: 'finished' });
        else query.failed({ title: 'The connection to the server was lost', status: 0, hint: 'Run the query again.' });
        changed(id, result);
      },
    },
    abort.signal,
  );
}

function refresh(): void {
  for (const [id, result] of results) {
    if (!result.query.over) result.dirty = true;
    schedule(id, result);
  }
}

function schedule(id: number, result: Result): void {
  if (result.timer || result.posted || !result.view.visible) return;
  if (!result.dirty && result.seenVersion === result.query.version) return;
  result.timer = true;
  setTimeout(
    () => {
      result.timer = false;
      if (results.get(id) === result && !result.posted && result.view.visible) paint(id, result);
    },
    Math.max(0, result.notBefore - now()),
  );
}

function paint(id: number, result: Result): void {
  const began = performance.now();
  const { query, view, memory } = result;
  result.dirty = false;
  result.seenVersion = query.version;
  result.posted = true;
  const picture = compute(query, result.suits === null || view.form !== null ? view : { ...view, form: result.suits }, memory);
  if (result.more && picture.note === '') picture.note = 'The server has more rows.';
  post({ is: 'picture', result: id, picture });
  result.notBefore = now() + Math.max(PICTURE_MS, REST_PER_WORK * (performance.now() - began));
}

/** Keeps all results together below their bound. */
function bound(): void {
  let all = 0;
  const own = [...results.values()].filter(({ follows }) => !follows);
  for (const result of own) all += result.query.emits.bytes;
  while (all > ALL_BYTES_MAX) {
    const largest = own.reduce((a, b) => (b.query.emits.bytes > a.query.emits.bytes ? b : a));
    const freed = largest.query.emits.evict();
    if (freed === 0) return;
    all -= freed;
  }
}

function subscribeStreams(): void {
  if (!streamsOn || streamsId !== null || connection?.live !== true) return;
  streamsId = nextId();
  connection.send(statusFrame(streamsId, 'streams', STREAMS_MS, STREAMS_MAX));
}

function streamsFrame(event: string, text: string | null): void {
  if (event === 'status' && text !== null) postStreams(parseJson(text));
  // The server gives no status by WebSocket: ask for it by plain calls.
  if (event === 'problem' || event === 'ended') {
    streamsId = null;
    if (event === 'problem') pollStreams();
  }
}

function postStreams(data: Json): void {
  if (!isObject(data) || !Array.isArray(data.streams)) return;
  const streams = data.streams.map(readStream).filter((stream): stream is StreamFacts => stream !== null);
  const at = typeof data.now === 'string' ? Date.parse(data.now) : Number.NaN;
  post({ is: 'streams', now: Number.isNaN(at) ? null : at, streams: streams.slice(0, STREAMS_MAX) });
}

let polling = false;

/** Asks for the streams each second, as long as they are wanted and no subscription brings them. */
function pollStreams(): void {
  if (polling || !streamsOn || streamsId !== null) return;
  polling = true;
  setTimeout(async () => {
    try {
      const answer = await fetch(new URL('v1/streams', base));
      if (answer.ok) postStreams(parseJson(await answer.text()));
    } catch {
      // The server is away; the connection's state shows it.
    }
    polling = false;
    pollStreams();
  }, STREAMS_MS);
}

/** The rows of the view, all of them, as the table orders them. */
function* rowsOf(result: Result, view: View, most: number): Generator<Row> {
  const table = compute(result.query, { ...view, form: 'table', from: 0, count: most, columnCount: 0 }, newMemory()).table;
  for (const { sequence, row } of table?.rows ?? []) {
    const record = result.query.emits.get(sequence)?.value.records[row];
    if (record !== undefined) yield record;
  }
}

function columnsShown(result: Result, view: View): string[] {
  return [...result.query.names.keys()].filter((name) => !view.hidden.includes(name));
}

const newResult = (query: LiveQuery, view: View): Result => ({
  query, view, memory: newMemory(), posted: false, timer: false, notBefore: 0, seenVersion: -1, dirty: true, abort: null, follows: false, suits: null, more: false,
});

/** A result of answers that the page reads. */
function newAnswer(id: number, question: Question): Result {
  const result = newResult(new LiveQuery(question, () => {}, nextId, now), { ...VIEW, visible: false });
  results.set(id, result);
  return result;
}

self.onmessage = ({ data }) => {
  if (data.do === 'begin') {
    begin(data.base);
    return;
  }
  if (data.do === 'streams') {
    streamsOn = data.on;
    if (data.on) {
      subscribeStreams();
      if (connection?.live !== true) pollStreams();
    } else if (streamsId !== null) {
      connection?.send(endFrame(streamsId));
      streamsId = null;
    }
    return;
  }
  if (data.do === 'ask' || data.do === 'restore') {
    const query = new LiveQuery(data.question, (frame) => connection?.send(frame), nextId, now);
    const before = results.get(data.result);
    forget(data.result);
    const result = newResult(query, { ...(before?.view ?? VIEW), at: null });
    results.set(data.result, result);
    for (const follower of results.values()) if (follower.follows && follower.query === before?.query) Object.assign(follower, { query, memory: newMemory(), seenVersion: -1 });
    if (data.do === 'ask') connect(data.result, result);
    else {
      guarded(result, () => query.restore(data.answer, data.resume));
      if (connection?.live === true) connect(data.result, result);
    }
    schedule(data.result, result);
    return;
  }
  if (data.do === 'watch') {
    const of = results.get(data.of);
    if (of !== undefined) results.set(data.result, { ...newResult(of.query, { ...VIEW, visible: false }), follows: true });
    return;
  }
  if (data.do === 'answer') {
    const result = results.get(data.result) ?? newAnswer(data.result, data.question);
    guarded(result, () => {
      const answer = parseJson(data.text);
      const { parts, form } = partsOf(answerRows(data.of, answer), data.form);
      result.more = hasMore(data.of, answer);
      result.suits = form;
      // Other answers may have other columns.
      result.memory = newMemory();
      result.query.declared = data.columns === null ? null : readColumns(parseJson(data.columns));
      result.query.answer(parts, data.text.length);
    });
    schedule(data.result, result);
    bound();
    return;
  }
  const result = results.get(data.result);
  if (result === undefined) {
    if ('request' in data) post({ is: 'answer', request: data.request, parts: null });
    return;
  }
  switch (data.do) {
    case 'stop':
      result.query.stop();
      result.abort?.abort();
      changed(data.result, result);
      break;
    case 'forget':
      forget(data.result);
      break;
    case 'view':
      result.view = data.view;
      result.dirty = true;
      schedule(data.result, result);
      break;
    case 'drawn':
      result.posted = false;
      schedule(data.result, result);
      break;
    case 'value': {
      const record = result.query.emits.get(data.sequence)?.value.records[data.row];
      const value = record === undefined ? undefined : own(record, data.column);
      const text = value === undefined ? null : typeof value === 'string' ? value : formatJson(value, 2);
      post({ is: 'answer', request: data.request, parts: text === null ? null : [text] });
      break;
    }
    case 'save': {
      const text = result.query.save(data.lengthMax);
      post({ is: 'answer', request: data.request, parts: text === null ? null : [text] });
      break;
    }
    case 'rows':
      post({
        is: 'answer',
        request: data.request,
        parts: exportRows(rowsOf(result, data.view, data.most), columnsShown(result, data.view), data.format),
      });
      break;
  }
};

function forget(id: number): void {
  const result = results.get(id);
  if (result?.follows === false) result.query.stop();
  result?.abort?.abort();
  results.delete(id);
}
