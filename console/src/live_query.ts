/**
 * One live query and its last results: asked, attached to again after a lost connection, asked again when the server forgot it.
 *
 * The ring has the newest emits. Each is taken once: an emit with a number that was read before is left out. A hole in the results
 * is a `Gap` with its reason. Sends frames through `send`, never reads a clock by itself. Credit is renewed as emits are taken in.
 */
import { aggregates, explains } from './chart_choice.ts';
import { type DeclaredColumn, type Incoming, type Problem, type Question } from './protocol.ts';
import { CREDIT_BYTES, attachFrame, creditFrame, endFrame, isObject, queryFrame, readColumns, readProblem } from './protocol.ts';
import { type Json, formatJson, parseJson } from './json.ts';
import { Ring } from './ring.ts';

export const LINGER_MS = 30_000;
/** Of single matches the page takes as many as it can draw; the server thins the rest evenly and counts it. */
export const RECORDS_PER_SECOND_MAX = 10_000;
export const RESULT_BYTES_MAX = 32 << 20;
export const WINDOWS_MAX = 600;
/** Single matches come in many small emits: rows are bounded in bytes alone, up to this many emits. */
export const EMITS_MAX = 200_000;
export const COLUMNS_MAX = 5000;
const GAPS_MAX = 20;
/** A parsed record takes about this many times the bytes of its text. */
const MEMORY_PER_TEXT = 2;
const RATE_SPAN_MS = 10_000;

export type Row = { [name: string]: Json };

export interface WindowTimes {
  kind: string;
  number: number;
  /** Milliseconds since 1970. */
  start: number;
  end: number;
}

export interface Emit {
  records: Row[];
  /** Null for single matches and for the one result of a query without a window. */
  window: WindowTimes | null;
  /** When it came, in milliseconds since 1970 by this machine's clock. */
  came: number;
  /** `meta.sketch.error_bounds`. */
  bounds: { [aggregate: string]: Json };
  /** Whether results before this one are missing. */
  afterGap: boolean;
}

export interface Gap {
  at: number;
  reason: string;
}

export interface Counts {
  seen: number;
  matched: number;
  mistyped: number;
  late: number;
  dropped: number;
  expression_errors: number;
  thinned: number;
}

export type Phase = 'asking' | 'live' | 'stale' | 'ended' | 'failed';

export class LiveQuery {
  phase: Phase = 'asking';
  /** Since when nothing can come, while the connection is lost. */
  staleSince: number | null = null;
  query: string | null = null;
  problem: Problem | null = null;
  endedReason: string | null = null;
  declared: DeclaredColumn[] | null = null;
  readonly gaps: Gap[] = [];
  counts: Counts = { seen: 0, matched: 0, mistyped: 0, late: 0, dropped: 0, expression_errors: 0, thinned: 0 };
  lagMs: number | null = null;
  warnings: string[] = [];
  windowed = false;
  /** The most rows of one window. */
  rowsMax = 0;
  /** Names of columns in the order of their first appearance, after the declared ones. */
  readonly names = new Map<string, number>();
  columnsLeftOut = 0;
  emits: Ring<Emit> = new Ring(RESULT_BYTES_MAX, EMITS_MAX);
  /** Rises with each change that a reader could see. */
  version = 0;

  private readonly ordered: boolean;
  private id: number | null = null;
  private lastNumber: number | null = null;
  private owed = 0;
  private attaching = false;
  private gapPending = false;
  /** Taken up after a reload, and not answered yet. */
  private resumed = false;
  /** Holds whole answers of statements, not of a live query. */
  private answers = false;
  private readonly marks: Array<{ at: number; seen: number; rows: number }> = [];
  private rowsTaken = 0;

  constructor(
    readonly question: Question,
    private readonly send: (frame: string) => void,
    private readonly nextId: () => number,
    private readonly now: () => number,
  ) {
    this.ordered = aggregates(question.text) || explains(question.text);
  }

  get subscription(): number | null {
    return this.id;
  }

  /** Whether each emit is one result in its own order; otherwise it has single matches, which form one list. */
  get whole(): boolean {
    return this.windowed || this.ordered || this.answers;
  }

  /** Whether the results are answers that the page has read, so that nothing is to be asked. */
  get given(): boolean {
    return this.answers;
  }

  get over(): boolean {
    return this.phase === 'ended' || this.phase === 'failed';
  }

  /** Asks the query, or attaches to it if it was asked before. Call it whenever a connection is there. */
  connect(): void {
    if (this.over) return;
    this.owed = 0;
    this.id = this.nextId();
    this.attaching = this.query !== null;
    this.send(
      this.query === null
        ? queryFrame(this.id, this.question, LINGER_MS, RECORDS_PER_SECOND_MAX)
        : attachFrame(this.id, this.query, this.lastNumber, RECORDS_PER_SECOND_MAX),
    );
    this.version += 1;
  }

  /** The connection is lost. */
  disconnect(): void {
    this.id = null;
    if (this.over) return;
    this.phase = 'stale';
    this.staleSince ??= this.now();
    this.version += 1;
  }

  /** Ends the query at the reader's wish. */
  stop(): void {
    if (this.over) return;
    if (this.id !== null) this.send(endFrame(this.id));
    this.finish('ended', 'client');
  }

  frame(frame: Incoming): void {
    switch (frame.event) {
      case 'started':
        this.started(frame.text === null ? null : parseJson(frame.text));
        break;
      case 'emit':
        if (frame.text !== null) this.emit(parseJson(frame.text), frame.text.length, frame.number);
        this.consumed(frame.bytes);
        break;
      case 'problem':
        this.failed(readProblem(frame.text === null ? null : parseJson(frame.text)));
        break;
      case 'ended':
        this.ended(frame.text === null ? null : parseJson(frame.text));
        break;
    }
  }

  started(data: Json): void {
    this.phase = 'live';
    this.staleSince = null;
    this.resumed = false;
    this.version += 1;
    if (!isObject(data)) return;
    if (typeof data.query === 'string') this.query = data.query;
    const columns = readColumns(data.columns);
    if (columns !== null) this.declared = columns;
    for (const column of this.declared ?? []) this.name(column.name);
  }

  /** Takes in one emit; `textLength` is the length of its JSON text. */
  emit(data: Json, textLength: number, number: number | null): void {
    if (number !== null && this.lastNumber !== null && number <= this.lastNumber) return;
    if (number !== null) this.lastNumber = number;
    if (!isObject(data)) return;
    const now = this.now();
    const meta = isObject(data.meta) ? data.meta : {};
    const records = Array.isArray(data.records) ? data.records.filter((record): record is Row => isObject(record)) : [];
    if (this.phase !== 'live' && !this.over) this.phase = 'live';
    this.staleSince = null;
    this.readMeta(meta);
    for (const record of records) for (const name of Object.keys(record)) this.name(name);
    const window = readWindow(meta.window);
    if (window !== null && !this.windowed) {
      this.windowed = true;
      this.emits = new Ring(RESULT_BYTES_MAX, WINDOWS_MAX);
    }
    if (window !== null || records.length > 0) {
      const sketch = isObject(meta.sketch) && isObject(meta.sketch.error_bounds) ? meta.sketch.error_bounds : {};
      const emit = { records, window, came: now, bounds: sketch, afterGap: this.gapPending };
      this.gapPending = false;
      this.rowsMax = Math.max(this.rowsMax, records.length);
      this.emits.push(emit, textLength * MEMORY_PER_TEXT, records.length);
    }
    this.rowsTaken += records.length;
    this.marks.push({ at: now, seen: this.counts.seen, rows: this.rowsTaken });
    while (this.marks.length > 2 && now - (this.marks[0]?.at ?? now) > RATE_SPAN_MS) this.marks.shift();
    this.version += 1;
  }

  /** Events seen and rows received in a second, over the last ten; null where there is no base for it. */
  rates(): { in: number; out: number } | null {
    const first = this.marks[0];
    const last = this.marks[this.marks.length - 1];
    if (first === undefined || last === undefined || this.over) return null;
    // Between two windows the last emit is the end of the span; after 2 s without one the rate begins to fall.
    const now = this.now();
    const seconds = ((now - last.at > 2000 ? now : last.at) - first.at) / 1000;
    if (seconds < 0.2) return null;
    return { in: Math.max(0, last.seen - first.seen) / seconds, out: (last.rows - first.rows) / seconds };
  }

  /**
   * Takes in an answer that was asked by a statement, in place of the earlier one. An answer of one row without a time follows the
   * earlier ones, so that a single value has a trend.
   */
  answer(parts: ReadonlyArray<{ at: number | null; records: Row[] }>, textLength: number): void {
    const single = parts.length === 1 && parts[0]?.at === null && parts[0].records.length === 1;
    this.answers = true;
    this.phase = 'live';
    if (!single || this.windowed || this.rowsMax > 1) {
      this.emits = new Ring(RESULT_BYTES_MAX, EMITS_MAX);
      this.names.clear();
      this.columnsLeftOut = 0;
      this.rowsMax = 0;
    }
    this.windowed = parts.length > 0 && parts[0]?.at !== null;
    const rows = parts.reduce((sum, { records }) => sum + records.length, 0);
    for (const column of this.declared ?? []) this.name(column.name);
    for (const { at, records } of parts) {
      for (const record of records) for (const name of Object.keys(record)) this.name(name);
      const window = at === null ? null : { kind: '', number: 0, start: Number.NaN, end: at };
      this.rowsMax = Math.max(this.rowsMax, records.length);
      this.emits.push({ records, window, came: this.now(), bounds: {}, afterGap: false }, (textLength * MEMORY_PER_TEXT * records.length) / Math.max(1, rows), records.length);
    }
    this.version += 1;
  }

  failed(problem: Problem): void {
    if (this.over) return;
    if (this.resumed && problem.status === 404) {
      this.finish('ended', 'saved');
      return;
    }
    if (this.attaching && problem.status === 404) {
      this.askAgain('the server no longer knew the query');
      return;
    }
    this.problem = problem;
    this.finish('failed', problem.title);
  }

  ended(data: Json): void {
    if (this.over) return;
    const reason = isObject(data) && typeof data.reason === 'string' ? data.reason : 'finished';
    if (reason === 'shutdown') {
      // The server says goodbye; the connection closes next, and the query goes on from there.
      this.id = null;
      return;
    }
    if (reason === 'forgotten') {
      this.askAgain('the server no longer had the query');
      return;
    }
    this.finish(reason === 'failed' ? 'failed' : 'ended', this.endedReason ?? reason);
  }

  /** Asks the query anew; what was missed is a gap. */
  askAgain(reason: string): void {
    this.gaps.push({ at: this.now(), reason });
    if (this.gaps.length > GAPS_MAX) this.gaps.shift();
    this.gapPending = true;
    this.query = null;
    this.lastNumber = null;
    this.marks.length = 0;
    this.connect();
  }

  /** The newest emits as JSON text of at most `lengthMax` characters, for `restore`; null where there is none that fits. */
  save(lengthMax: number): string | null {
    const emits: Json[] = [];
    let length = 200;
    for (let sequence = this.emits.last; sequence >= this.emits.first; sequence -= 1) {
      const entry = this.emits.get(sequence);
      if (entry === undefined) break;
      length += entry.bytes / MEMORY_PER_TEXT + 200;
      if (length > lengthMax) break;
      const { records, window, came, bounds } = entry.value;
      emits.unshift({ records, window: window === null ? null : { ...window }, came, bounds });
    }
    if (emits.length === 0) return null;
    const more = this.over ? {} : { query: this.query, number: this.lastNumber };
    const text = formatJson({ emits, declared: (this.declared ?? null) as Json, ...more });
    return text.length <= lengthMax ? text : null;
  }

  /**
   * Shows what `save` wrote: an ended query with those results. With `resume`, a query that ran then waits for `connect`, which
   * attaches to it behind those results; if the server does not know it any more, it stays ended and is not asked again.
   */
  restore(text: string, resume: boolean): void {
    const data = parseJson(text);
    if (resume && isObject(data) && typeof data.query === 'string') {
      this.query = data.query;
      this.lastNumber = typeof data.number === 'number' ? data.number : null;
      this.resumed = true;
    } else {
      this.finish('ended', 'saved');
    }
    if (!isObject(data) || !Array.isArray(data.emits)) return;
    this.declared = readColumns(data.declared);
    for (const column of this.declared ?? []) this.name(column.name);
    for (const item of data.emits) {
      if (!isObject(item) || !Array.isArray(item.records)) continue;
      const records = item.records.filter((record): record is Row => isObject(record));
      for (const record of records) for (const name of Object.keys(record)) this.name(name);
      const window = isObject(item.window)
        ? { kind: '', number: 0, start: Number(item.window.start ?? NaN), end: Number(item.window.end ?? NaN) }
        : null;
      if (window !== null && !this.windowed) {
        this.windowed = true;
        this.emits = new Ring(RESULT_BYTES_MAX, WINDOWS_MAX);
      }
      this.rowsMax = Math.max(this.rowsMax, records.length);
      const came = typeof item.came === 'number' ? item.came : 0;
      this.emits.push({ records, window, came, bounds: isObject(item.bounds) ? item.bounds : {}, afterGap: false }, 2000, records.length);
    }
  }

  private consumed(bytes: number): void {
    this.owed += bytes;
    if (this.owed < CREDIT_BYTES / 8 || this.id === null) return;
    this.send(creditFrame(this.id, this.owed));
    this.owed = 0;
  }

  private finish(phase: 'ended' | 'failed', reason: string): void {
    this.phase = phase;
    this.endedReason = reason;
    this.staleSince = null;
    this.id = null;
    this.version += 1;
  }

  private name(name: string): void {
    if (this.names.has(name)) return;
    if (this.names.size >= COLUMNS_MAX) this.columnsLeftOut += 1;
    else this.names.set(name, this.names.size);
  }

  private readMeta(meta: { [name: string]: Json }): void {
    if (isObject(meta.counts)) {
      for (const name of Object.keys(this.counts) as Array<keyof Counts>) {
        const value = meta.counts[name];
        if (typeof value === 'number') this.counts[name] = value;
      }
    }
    if (isObject(meta.stream) && typeof meta.stream.lag_ms === 'number') this.lagMs = meta.stream.lag_ms;
    if (Array.isArray(meta.warnings) && meta.warnings.length > 0) {
      this.warnings = meta.warnings.filter((text) => typeof text === 'string').slice(0, 20);
    }
    if (isObject(meta.query) && typeof meta.query.id === 'string') this.query ??= meta.query.id;
    if (isObject(meta.query) && typeof meta.query.reason === 'string') this.endedReason = meta.query.reason;
    if (isObject(meta.error) && typeof meta.error.message === 'string') {
      this.problem = { title: 'The query ended with an error', status: 0, detail: meta.error.message };
      if (typeof meta.error.hint === 'string') this.problem.hint = meta.error.hint;
    }
  }
}

function readWindow(window: Json | undefined): WindowTimes | null {
  if (!isObject(window)) return null;
  const time = (value: Json | undefined) => (typeof value === 'string' ? Date.parse(value) : Number.NaN);
  return {
    kind: typeof window.kind === 'string' ? window.kind : '',
    number: typeof window.number === 'number' ? window.number : 0,
    start: time(window.start),
    end: time(window.end),
  };
}
