/**
 * A search as the page's address has it, and the calls that it makes. Pure.
 *
 * `#/search?stream=logs&q=timeout&from=now-1h&drill=level:error` is a search, `#/search?activity=t1&depth=1` the events of an id.
 * Whatever a fragment has, reading it gives a valid state.
 */
import { wellFormed } from './fragment.ts';
import type { Json } from './json.ts';
import { type Problem, isObject } from './protocol.ts';

export interface SearchState {
  streams: string[];
  words: string;
  /** As the server reads times: RFC 3339, a date, `now-15m`; empty: no bound. */
  from: string;
  to: string;
  /** `column:value`. */
  drills: string[];
  /** The id of an activity; null: a search by words. */
  activity: string | null;
  depth: number;
}

export const STREAMS_MAX = 32;
export const DRILLS_MAX = 32;
export const WORDS_MAX = 65_536;
export const PAGE_HITS = 50;
export const ACTIVITY_EVENTS = 200;
export const RANGES: ReadonlyArray<readonly [string, string]> = [
  ['now-15m', 'Last 15 minutes'],
  ['now-1h', 'Last hour'],
  ['now-6h', 'Last 6 hours'],
  ['now-24h', 'Last 24 hours'],
  ['now-7d', 'Last 7 days'],
  ['', 'All time'],
];

export const EMPTY: SearchState = { streams: [], words: '', from: 'now-1h', to: '', drills: [], activity: null, depth: 0 };

export function readSearch(fragment: string): SearchState {
  const mark = fragment.indexOf('?');
  const values = new URLSearchParams(mark < 0 ? '' : fragment.slice(mark + 1));
  const streams = [...new Set(values.getAll('stream').filter((name) => name !== '' && name.length <= 1000))].slice(0, STREAMS_MAX);
  const words = values.get('q') ?? '';
  const short = (name: string, otherwise: string) => {
    const text = values.get(name);
    return text === null || text.length > 64 ? otherwise : text;
  };
  const depth = Number(values.get('depth') ?? 0);
  const activity = values.get('activity');
  return {
    streams,
    words: words.length <= WORDS_MAX ? words : '',
    from: short('from', EMPTY.from),
    to: short('to', ''),
    drills: [...new Set(values.getAll('drill').filter((drill) => /^[^:]+:/.test(drill) && drill.length <= 4000))].slice(0, DRILLS_MAX),
    activity: activity === null || activity === '' || activity.length > 1024 ? null : activity,
    depth: Number.isInteger(depth) && depth >= 0 && depth <= 5 ? depth : 0,
  };
}

export function writeSearch(state: SearchState): string {
  const values = new URLSearchParams();
  if (state.activity !== null) values.set('activity', wellFormed(state.activity));
  if (state.depth > 0) values.set('depth', String(state.depth));
  for (const stream of state.streams) values.append('stream', wellFormed(stream));
  if (state.words !== '') values.set('q', wellFormed(state.words));
  if (state.from !== EMPTY.from) values.set('from', wellFormed(state.from));
  if (state.to !== '') values.set('to', wellFormed(state.to));
  for (const drill of state.drills) values.append('drill', wellFormed(drill));
  const query = values.toString();
  return query === '' ? '#/search' : `#/search?${query}`;
}


/** Whether a fragment names anything to search for. */
export const asksSomething = (state: SearchState): boolean => (state.activity === null ? state.streams.length > 0 : state.activity !== '');

const common = (state: SearchState): URLSearchParams => {
  const values = new URLSearchParams();
  for (const stream of state.streams) values.append('stream', stream);
  if (state.from !== '') values.set('from', state.from);
  if (state.to !== '') values.set('to', state.to);
  return values;
};

function searched(state: SearchState): URLSearchParams {
  const values = common(state);
  if (state.words.trim() !== '') values.set('q', state.words);
  for (const drill of state.drills) values.append('drill', drill);
  return values;
}

/** The call for a page of hits, with the counts over time on the first one. */
export function hitsCall(state: SearchState, cursor: string | null): string {
  const values = searched(state);
  values.set('limit', String(PAGE_HITS));
  values.set('highlight', 'true');
  values.set('partial', 'true');
  if (cursor === null) values.set('histogram', '_time:auto');
  else values.set('cursor', cursor);
  return `v1/search?${values}`;
}

export function facetsCall(state: SearchState, columns: readonly string[]): string {
  const values = searched(state);
  values.set('limit', '0');
  values.set('sideways', 'true');
  for (const column of columns) values.append('facet', `${column};limit=8`);
  return `v1/search?${values}`;
}

export function fieldsCall(state: SearchState, stream: string): string {
  const values = searched(state);
  values.delete('stream');
  values.set('limit', '1');
  return `v1/streams/${encodeURIComponent(stream)}/search/fields?${values}`;
}

export function followCall(state: SearchState): string {
  const values = searched(state);
  // A search that follows has no end.
  values.delete('to');
  values.set('limit', String(PAGE_HITS));
  values.set('highlight', 'true');
  values.set('follow', 'true');
  return `v1/search?${values}`;
}

export function activityCall(state: SearchState, cursor: string | null): string {
  const values = common({ ...state, streams: [] });
  if (state.depth > 0) values.set('depth', String(state.depth));
  values.set('limit', String(ACTIVITY_EVENTS));
  if (cursor !== null) values.set('cursor', cursor);
  return `v1/activity/${encodeURIComponent(state.activity ?? '')}?${values}`;
}

export interface Piece {
  text: string;
  kind: 'plain' | 'match' | 'gap';
}

export interface Hit {
  stream: string;
  offset: string;
  time: string;
  event: Json;
  highlight: Array<{ column: string; pieces: Piece[] }>;
}

export interface ActivityEvent extends Hit {
  depth: number;
  via: { id: string; column: string } | null;
}

export interface Interval {
  at: number;
  count: number;
}

export interface Answer {
  hits: Hit[];
  total: number | null;
  cursor: string | null;
  complete: boolean;
  histogram: Interval[];
  tookMs: number | null;
  warnings: string[];
}

export interface Facet {
  column: string;
  values: Array<{ value: string; count: number }>;
  distinct: number;
  missing: number;
}

export function readHit(data: Json): Hit | null {
  if (!isObject(data) || typeof data.stream !== 'string' || data.event === undefined) return null;
  const highlight = Object.entries(isObject(data.highlight) ? data.highlight : {}).map(([column, pieces]) => ({ column, pieces: list(pieces).flatMap(readPiece) }));
  return { stream: data.stream, offset: String(data.offset ?? ''), time: text(data.time), event: data.event, highlight };
}

export function readEvent(data: Json): ActivityEvent | null {
  const hit = readHit(data);
  if (hit === null || !isObject(data)) return null;
  const via = isObject(data.via) ? { id: text(data.via.id), column: text(data.via.column) } : null;
  return { ...hit, depth: count(data.depth), via };
}

export function readAnswer(data: Json): Answer {
  const body = isObject(data) ? data : {};
  const meta = isObject(body.meta) ? body.meta : {};
  return {
    hits: list(body.hits ?? body.events).flatMap((one) => readHit(one) ?? []),
    total: typeof body.total === 'number' || typeof body.total === 'bigint' ? Number(body.total) : null,
    cursor: typeof body.cursor === 'string' ? body.cursor : null,
    complete: body.complete !== false,
    histogram: list(body.histogram).flatMap(readInterval),
    tookMs: typeof meta.took_ms === 'number' ? meta.took_ms : null,
    warnings: list(meta.warnings).filter((one): one is string => typeof one === 'string'),
  };
}

export function readFacets(data: Json): Facet[] {
  const facets = isObject(data) && isObject(data.facets) ? data.facets : {};
  return Object.entries(facets).flatMap(([column, facet]) => {
    if (!isObject(facet)) return [];
    const values = list(facet.values).flatMap((one) => (isObject(one) && one.value !== null && typeof one.value !== 'object' ? [{ value: String(one.value), count: count(one.count) }] : []));
    return [{ column, values, distinct: count(facet.distinct), missing: count(facet.missing) }];
  });
}

/** The columns that all streams have and whose values are worth a list, those with the fewest values first. */
export function facetColumns(answers: readonly Json[], most: number): string[] {
  const found = new Map<string, { streams: number; distinct: number }>();
  for (const answer of answers) {
    for (const field of list(isObject(answer) ? answer.fields : undefined)) {
      if (!isObject(field) || typeof field.column !== 'string' || typeof field.distinct !== 'number') continue;
      // Separators of parameters cannot be part of a column there.
      if (/^_(time|offset|event)$/.test(field.column) || /[;:]/.test(field.column) || /^TIMESTAMP/i.test(text(field.type))) continue;
      const known = found.get(field.column) ?? { streams: 0, distinct: 0 };
      found.set(field.column, { streams: known.streams + 1, distinct: Math.max(known.distinct, field.distinct) });
    }
  }
  return [...found]
    .filter(([, { streams, distinct }]) => streams === answers.length && distinct > 0 && distinct <= 300)
    .sort((a, b) => a[1].distinct - b[1].distinct || (a[0] < b[0] ? -1 : 1))
    .slice(0, most)
    .map(([column]) => column);
}

/** Intervals of equal length without holes; `stepMs` is 0 where it cannot be known. */
export function evenIntervals(intervals: readonly Interval[], most = 400): { intervals: Interval[]; stepMs: number } {
  let step = 0;
  for (let i = 1; i < intervals.length; i += 1) {
    let [a, b] = [Math.abs((intervals[i]?.at ?? 0) - (intervals[i - 1]?.at ?? 0)), step];
    while (b > 0) [a, b] = [b, a % b];
    step = a;
  }
  const first = intervals[0]?.at ?? 0;
  const last = intervals[intervals.length - 1]?.at ?? 0;
  if (step <= 0 || (last - first) / step >= most) return { intervals: [...intervals], stepMs: step };
  const known = new Map(intervals.map(({ at, count }) => [at, count]));
  return { intervals: Array.from({ length: (last - first) / step + 1 }, (_, i) => ({ at: first + i * step, count: known.get(first + i * step) ?? 0 })), stepMs: step };
}

export interface Fault {
  /** The character at which it is, from 1 on; null: it has no place in the words. */
  character: number | null;
  message: string;
}

/** The faults of the words in a problem: `the search cannot be read: character 1: …; character 12: …`. */
export function faultsOf(problem: Problem): Fault[] {
  const detail = problem.detail ?? problem.title;
  const marks = [...detail.matchAll(/(?:^|: |; )character (\d{1,9}): /g)];
  const faults = marks.map((mark, i): Fault => ({ character: Number(mark[1]), message: detail.slice(mark.index + mark[0].length, marks[i + 1]?.index) }));
  if (faults.length > 0) return faults;
  return [{ character: problem.line === undefined || problem.line === 1 ? (problem.column ?? null) : null, message: detail }];
}

function readPiece(data: Json): Piece[] {
  if (!isObject(data)) return [];
  if (data.gap === true) return [{ text: '…', kind: 'gap' }];
  return typeof data.text === 'string' ? [{ text: data.text, kind: data.match === true ? 'match' : 'plain' }] : [];
}

function readInterval(data: Json): Interval[] {
  const at = isObject(data) ? Date.parse(text(data.time)) : Number.NaN;
  return Number.isNaN(at) || !isObject(data) ? [] : [{ at, count: count(data.count) }];
}

const list = (data: Json | undefined): Json[] => (Array.isArray(data) ? data : []);
const text = (data: Json | undefined): string => (typeof data === 'string' ? data : '');
const count = (data: Json | undefined): number => (typeof data === 'number' ? data : typeof data === 'bigint' ? Number(data) : 0);
