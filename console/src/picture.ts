/**
 * What the page shows of a result, computed from its ring and from what the reader looks at.
 *
 * Pure: `(query, view) -> picture`. A picture has only what is on screen: the rows and columns in sight, curves thinned to the
 * width, the largest groups. Whatever is left out is counted in `note`.
 */
import { type Column, type Facts, aggregates, choose, describe, isTop } from './chart_choice.ts';
import { parseTime } from './format.ts';
import type { Form } from './fragment.ts';
import { type Json, formatJson } from './json.ts';
import type { Counts, Emit, Gap, LiveQuery, Phase, Row } from './live_query.ts';
import { type Problem, isObject } from './protocol.ts';
import type { Entry } from './ring.ts';
import { cut } from './text.ts';
import { thinIndexes } from './thinning.ts';

export const CELL_LENGTH_MAX = 200;
export const SERIES_MAX = 12;
export const BARS_MAX = 50;
export const HEAT_COLUMNS_MAX = 24;
export const HEAT_ROWS_MAX = 40;
const JSON_RECORDS_MAX = 50;
const JSON_LINES_MAX = 2000;
const SEARCHED_LENGTH_MAX = 4000;
const TILES_MAX = 6;

export interface View {
  /** Null: the form that suits the result. */
  form: Form | null;
  /** The last entry that is shown; null while the newest is. */
  at: number | null;
  visible: boolean;
  width: number;
  from: number;
  count: number;
  columnFrom: number;
  columnCount: number;
  sort: { column: string; descending: boolean } | null;
  find: string;
  hidden: string[];
  measure: string | null;
}

export const VIEW: View = {
  form: null,
  at: null,
  visible: true,
  width: 800,
  from: 0,
  count: 40,
  columnFrom: 1,
  columnCount: 12,
  sort: null,
  find: '',
  hidden: [],
  measure: null,
};

/** A value that is too long for a cell, or no primitive: its first characters as text. */
export interface Excerpt {
  text: string;
  length: number;
  json: boolean;
}

export type Cell = undefined | null | boolean | number | bigint | string | Excerpt;

export interface TableRow {
  sequence: number;
  row: number;
  cells: Cell[];
}

export interface TablePicture {
  total: number;
  from: number;
  rows: TableRow[];
  /** Columns that are not hidden. */
  columns: string[];
  columnFrom: number;
  /** The widest content of each column in `rows`, in characters: of the first column, then of those from `columnFrom`. */
  widths: number[];
}

export interface Series {
  name: string;
  values: Array<number | null>;
}

export interface LinesPicture {
  /** Milliseconds since 1970, rising. */
  x: number[];
  series: Series[];
  measure: string;
  /** Times at which results are missing. */
  gaps: number[];
}

export interface Bar {
  label: string;
  value: number;
  low: number | null;
  high: number | null;
}

export interface BarsPicture {
  bars: Bar[];
  measure: string;
  left: number;
}

export interface HeatPicture {
  across: string[];
  down: string[];
  cells: Array<Array<number | null>>;
  keys: [string, string];
  measure: string;
  left: number;
}

export interface Tile {
  name: string;
  value: Cell;
  before: number | null;
  trend: Array<number | null>;
  low: number | null;
  high: number | null;
}

export interface Status {
  phase: Phase;
  staleSince: number | null;
  endedReason: string | null;
  problem: Problem | null;
  query: string | null;
  counts: Counts;
  lagMs: number | null;
  rates: { in: number; out: number } | null;
  windowed: boolean;
  first: number;
  last: number;
  rows: number;
  bytes: number;
  evicted: number;
  gaps: Gap[];
  warnings: string[];
  estimates: string[];
  columnsLeftOut: number;
}

export interface Picture {
  status: Status;
  /** The form that suits, and the one that is shown. */
  suits: Form;
  form: Form;
  columns: Column[];
  measures: string[];
  measure: string | null;
  window: { sequence: number; start: number | null; end: number | null; rows: number; came: number } | null;
  note: string;
  table: TablePicture | null;
  json: { lines: string[]; records: number; of: number } | null;
  lines: LinesPicture | null;
  bars: BarsPicture | null;
  heat: HeatPicture | null;
  tiles: Tile[] | null;
}

/** Remembers what does not change between two pictures of one query. */
export interface Memory {
  columns: Column[];
  columnsKey: string;
  sorted: { key: string; rows: Array<[number, number]> } | null;
}

export const newMemory = (): Memory => ({ columns: [], columnsKey: '', sorted: null });

export function compute(query: LiveQuery, view: View, memory: Memory): Picture {
  const ring = query.emits;
  const at = Math.max(ring.first, Math.min(view.at ?? ring.last, ring.last));
  const entry = ring.get(at);
  const columns = columnsOf(query, memory, entry);
  const facts: Facts = {
    columns,
    windowed: query.windowed,
    rows: query.rowsMax,
    aggregates: aggregates(query.question.text),
    top: isTop(query.question.text),
  };
  const suits = ring.length === 0 ? 'table' : choose(facts);
  const measures = columns.filter((column) => column.role === 'measure').map((column) => column.name);
  // A chart that was chosen for an earlier question needs a number in this one, too.
  const possible = view.form === 'table' || view.form === 'json' || measures.length > 0;
  const form = view.form !== null && possible ? view.form : suits;
  const measure = view.measure !== null && measures.includes(view.measure) ? view.measure : preferred(form, measures);
  const picture: Picture = {
    status: statusOf(query, entry),
    suits,
    form,
    columns,
    measures,
    measure,
    window: entry === undefined ? null : windowOf(entry),
    note: '',
    table: null,
    json: null,
    lines: null,
    bars: null,
    heat: null,
    tiles: null,
  };
  if (entry === undefined) return picture;
  const work = { query, view, memory, at, entry, columns, measure, picture };
  switch (form) {
    case 'table':
      picture.table = tableOf(work);
      break;
    case 'json':
      picture.json = jsonOf(work);
      break;
    case 'line':
    case 'area':
    case 'stacked':
      picture.lines = linesOf(work);
      break;
    case 'bar':
    case 'top':
      picture.bars = barsOf(work);
      break;
    case 'histogram':
      picture.bars = histogramOf(work);
      break;
    case 'heat':
      picture.heat = heatOf(work);
      break;
    case 'value':
      picture.tiles = tilesOf(work);
      break;
  }
  return picture;
}

interface Work {
  query: LiveQuery;
  view: View;
  memory: Memory;
  at: number;
  entry: Entry<Emit>;
  columns: Column[];
  measure: string | null;
  picture: Picture;
}

function preferred(form: Form, measures: string[]): string | null {
  if ((form === 'histogram' || form === 'top') && measures.includes('Count')) return 'Count';
  return measures[0] ?? null;
}

function columnsOf(query: LiveQuery, memory: Memory, entry: Entry<Emit> | undefined): Column[] {
  const rows = entry?.value.records.length ?? 0;
  const sampled = Math.min(query.emits.rows, 50);
  const key = `${query.names.size}/${query.declared === null}/${sampled}/${Math.min(rows, 1)}`;
  if (key !== memory.columnsKey) {
    const sample: Row[] = [];
    for (const held of query.emits.range(query.emits.last - 20, query.emits.last)) {
      for (const record of held.value.records) if (sample.length < 50) sample.push(record);
    }
    memory.columns = describe(query.names.keys(), query.declared, sample, query.question.text);
    memory.columnsKey = key;
  }
  return memory.columns;
}

function statusOf(query: LiveQuery, entry: Entry<Emit> | undefined): Status {
  const ring = query.emits;
  return {
    phase: query.phase,
    staleSince: query.staleSince,
    endedReason: query.endedReason,
    problem: query.problem,
    query: query.query,
    counts: { ...query.counts },
    lagMs: query.lagMs,
    rates: query.rates(),
    windowed: query.windowed,
    first: ring.first,
    last: ring.last,
    rows: ring.rows,
    bytes: ring.bytes,
    evicted: ring.evicted,
    gaps: [...query.gaps],
    warnings: query.warnings,
    estimates: entry === undefined ? [] : estimatesOf(entry.value),
    columnsLeftOut: query.columnsLeftOut,
  };
}

function windowOf(entry: Entry<Emit>): Picture['window'] {
  const { window, came, records } = entry.value;
  const time = (ms: number | undefined) => (ms === undefined || Number.isNaN(ms) ? null : ms);
  return { sequence: entry.sequence, start: time(window?.start), end: time(window?.end), rows: records.length, came };
}

const round = (value: number) => Number(value.toPrecision(6));

/** The bounds of estimated aggregates, one line each. */
function estimatesOf(emit: Emit): string[] {
  const lines: string[] = [];
  for (const name of Object.keys(emit.bounds).slice(0, 20)) {
    const bound = emit.bounds[name];
    if (!isObject(bound) || bound.estimated !== true) continue;
    const share = typeof bound.confidence === 'number' ? ` with probability ${round(bound.confidence * 100)} %` : '';
    if (typeof bound.lower === 'number' && typeof bound.upper === 'number') {
      lines.push(`${name}: between ${round(bound.lower)} and ${round(bound.upper)}${share}`);
    } else if (typeof bound.rank_error === 'number') {
      lines.push(`${name}: the rank is within ${round(bound.rank_error * 100)} % of all values${share}`);
    } else if (typeof bound.count_error === 'number') {
      lines.push(`${name}: each count is at most ${round(bound.count_error)} too large`);
    }
  }
  return lines;
}

export function own(record: Row, name: string): Json | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** A value as a number, or null. A `bigint` is rounded: only pictures use this. */
export function numeric(value: Json | undefined): number | null {
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  return typeof value === 'bigint' ? Number(value) : null;
}

/** A key as a label. */
export function labelOf(value: Json | undefined): string {
  if (value === undefined) return 'absent';
  if (typeof value === 'string') return cut(value, 80);
  return cut(formatJson(value), 80);
}

export function cellOf(value: Json | undefined): Cell {
  if (typeof value === 'string') {
    return value.length <= CELL_LENGTH_MAX ? value : { text: cut(value, CELL_LENGTH_MAX), length: value.length, json: false };
  }
  if (typeof value === 'object' && value !== null) {
    const text = excerptOf(value, CELL_LENGTH_MAX);
    return { text: cut(text, CELL_LENGTH_MAX), length: text.length, json: true };
  }
  return value;
}

/** The first characters of a value's JSON text, without writing all of it. */
function excerptOf(value: Json, length: number): string {
  const parts: string[] = [];
  let left = length + 1;
  const put = (text: string) => {
    parts.push(text);
    left -= text.length;
  };
  const walk = (inner: Json): void => {
    if (left <= 0) return;
    if (inner === null || typeof inner !== 'object') {
      put(formatJson(typeof inner === 'string' ? cut(inner, left) : inner));
      return;
    }
    const list = Array.isArray(inner);
    put(list ? '[' : '{');
    let first = true;
    for (const name of list ? inner.keys() : Object.keys(inner)) {
      if (left <= 0) return;
      if (!first) put(',');
      first = false;
      if (!list) put(`${JSON.stringify(name)}:`);
      walk((inner as { [name: string | number]: Json })[name] as Json);
    }
    put(list ? ']' : '}');
  };
  walk(value);
  return parts.join('');
}

function tableOf({ query, view, memory, at, entry, columns }: Work): TablePicture {
  const shown = columns.map((column) => column.name).filter((name) => !view.hidden.includes(name));
  const from = Math.max(0, view.from);
  const first = shown.slice(0, 1);
  const columnFrom = Math.max(1, view.columnFrom);
  const rest = shown.slice(columnFrom, columnFrom + view.columnCount);
  const names = [...first, ...rest];
  const picked: TableRow[] = [];
  const take = (sequence: number, row: number, record: Row) =>
    picked.push({ sequence, row, cells: names.map((name) => cellOf(own(record, name))) });
  const order = view.sort === null && view.find === '' ? null : orderOf(query, view, memory, at, shown);
  let total: number;
  if (order !== null) {
    total = order.length;
    for (const [sequence, row] of order.slice(from, from + view.count)) {
      const record = query.emits.get(sequence)?.value.records[row];
      if (record !== undefined) take(sequence, row, record);
    }
  } else if (query.whole) {
    total = entry.value.records.length;
    entry.value.records.slice(from, from + view.count).forEach((record, i) => take(entry.sequence, from + i, record));
  } else {
    // Single matches: all that are held, the newest first.
    total = query.emits.rowsUpTo(at);
    for (let i = from; i < Math.min(from + view.count, total); i += 1) {
      const place = query.emits.locate(total - 1 - i);
      const record = place?.entry.value.records[place.row];
      if (place !== undefined && record !== undefined) take(place.entry.sequence, place.row, record);
    }
  }
  const widths = names.map((name, i) =>
    picked.reduce((most, row) => Math.max(most, lengthOf(row.cells[i])), name.length),
  );
  return { total, from, rows: picked, columns: shown, columnFrom, widths };
}

function lengthOf(cell: Cell): number {
  // A time is shown with its date, its milliseconds and its zone.
  if (typeof cell === 'string') return parseTime(cell) === null ? cell.length : 29;
  if (typeof cell === 'object' && cell !== null) return cell.text.length;
  return typeof cell === 'number' ? Math.min(12, String(cell).length) : String(cell ?? '').length;
}

/** The places of the rows that `find` finds, in the order of `sort`. */
function orderOf(query: LiveQuery, view: View, memory: Memory, at: number, names: string[]): Array<[number, number]> {
  const first = query.whole ? at : query.emits.first;
  const key = JSON.stringify([first, at, view.sort, view.find, names.length, view.hidden]);
  if (memory.sorted !== null && memory.sorted.key === key) return memory.sorted.rows;
  const found: Array<{ sequence: number; row: number; value: Json | undefined }> = [];
  const needle = view.find.toLowerCase();
  for (const entry of query.emits.range(first, at)) {
    entry.value.records.forEach((record, row) => {
      if (needle !== '' && !matches(record, names, needle)) return;
      found.push({ sequence: entry.sequence, row, value: view.sort === null ? undefined : own(record, view.sort.column) });
    });
  }
  if (view.sort === null) {
    if (!query.whole) found.reverse();
  } else {
    const sign = view.sort.descending ? -1 : 1;
    found.sort((a, b) => {
      // What is missing comes last in both directions.
      const missing = Number(isMissing(a.value)) - Number(isMissing(b.value));
      return missing !== 0 ? missing : sign * compareValues(a.value, b.value);
    });
  }
  const rows = found.map(({ sequence, row }): [number, number] => [sequence, row]);
  memory.sorted = { key, rows };
  return rows;
}

const isMissing = (value: Json | undefined) => value === null || value === undefined;

function matches(record: Row, names: string[], needle: string): boolean {
  for (const name of names) {
    const value = own(record, name);
    if (value === undefined || value === null) continue;
    const text =
      typeof value === 'string'
        ? value.slice(0, SEARCHED_LENGTH_MAX)
        : typeof value === 'object'
          ? excerptOf(value, SEARCHED_LENGTH_MAX)
          : String(value);
    if (text.toLowerCase().includes(needle)) return true;
  }
  return false;
}

/** Numbers before truth values before text before the rest. */
export function compareValues(a: Json | undefined, b: Json | undefined): number {
  const rank = (value: Json | undefined) =>
    typeof value === 'number' || typeof value === 'bigint' ? 0 : typeof value === 'boolean' ? 1 : typeof value === 'string' ? 2 : 3;
  const ranks = rank(a) - rank(b);
  if (ranks !== 0) return ranks;
  if (rank(a) === 3) return compareText(excerptOf(a ?? null, CELL_LENGTH_MAX), excerptOf(b ?? null, CELL_LENGTH_MAX));
  if (typeof a === 'string' && typeof b === 'string') return compareText(a, b);
  const left = a as number | bigint | boolean;
  const right = b as number | bigint | boolean;
  return left < right ? -1 : left > right ? 1 : 0;
}

const compareText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

function jsonOf({ query, at, entry, picture }: Work): Picture['json'] {
  const records: Row[] = [];
  if (query.whole) {
    records.push(...entry.value.records.slice(0, JSON_RECORDS_MAX));
  } else {
    const total = query.emits.rowsUpTo(at);
    for (let i = total - 1; i >= 0 && records.length < JSON_RECORDS_MAX; i -= 1) {
      const place = query.emits.locate(i);
      const record = place?.entry.value.records[place.row];
      if (record !== undefined) records.push(record);
    }
  }
  const of = query.whole ? entry.value.records.length : query.emits.rowsUpTo(at);
  const lines: string[] = [];
  let whole = 0;
  for (const record of records) {
    if (lines.length >= JSON_LINES_MAX) break;
    for (const line of formatJson(shorten(record) as Json, 2).split('\n')) {
      if (lines.length < JSON_LINES_MAX) lines.push(cut(line, 2 * CELL_LENGTH_MAX));
    }
    whole += 1;
  }
  if (whole < of || lines.length >= JSON_LINES_MAX) {
    picture.note = `The first ${whole} of ${of} records; long values are cut. Export or copy has all.`;
  }
  return { lines, records: whole, of };
}

function shorten(value: Json): Json {
  if (typeof value === 'string') return value.length > 300 ? `${cut(value, 300)}… (${value.length} characters)` : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.slice(0, 500).map(shorten);
  const short = Object.create(null) as Row;
  for (const name of Object.keys(value).slice(0, 2500)) short[name] = shorten(value[name] as Json);
  return short;
}

const keysOf = (columns: Column[]) =>
  columns.filter((column) => column.role === 'key' || column.role === 'point' || column.role === 'range');

function linesOf({ query, view, at, columns, measure, picture }: Work): LinesPicture {
  const keys = keysOf(columns);
  const entries = [...query.emits.range(query.emits.first, at)];
  const additive = columns.find((column) => column.name === measure)?.additive ?? false;
  let series: Series[];
  if (measure === null) {
    series = [];
    picture.note = 'There is no number to draw.';
  } else if (keys.length === 0) {
    const names = columns.filter((column) => column.role === 'measure').map((column) => column.name);
    series = (view.measure === null ? names.slice(0, SERIES_MAX) : [measure]).map((name) => ({
      name,
      values: entries.map((entry) => (entry.value.records[0] === undefined ? null : numeric(own(entry.value.records[0], name)))),
    }));
  } else {
    series = groupedSeries(entries, keys, measure, additive, picture);
  }
  return spread(entries, series, measure ?? '', view.width, picture);
}

/** The twelve largest groups over all windows in sight; sums and counts of the others as one more. */
function groupedSeries(
  entries: Array<Entry<Emit>>,
  keys: Column[],
  measure: string,
  additive: boolean,
  picture: Picture,
): Series[] {
  const totals = new Map<string, number>();
  const table = entries.map((entry) => {
    const groups = new Map<string, number>();
    for (const record of entry.value.records) {
      const value = numeric(own(record, measure));
      if (value === null) continue;
      const label = keys.map((key) => labelOf(own(record, key.name))).join(' · ');
      groups.set(label, (groups.get(label) ?? 0) + value);
    }
    for (const [label, value] of groups) totals.set(label, (totals.get(label) ?? 0) + Math.abs(value));
    return groups;
  });
  const labels = [...totals].sort((a, b) => b[1] - a[1] || compareText(a[0], b[0])).map(([label]) => label);
  const largest = labels.slice(0, SERIES_MAX);
  const series = largest.map((name) => ({ name, values: table.map((groups) => groups.get(name) ?? null) }));
  const left = labels.length - largest.length;
  if (left > 0 && additive) {
    const drawn = new Set(largest);
    const values = table.map((groups) => {
      let sum: number | null = null;
      for (const [label, value] of groups) if (!drawn.has(label)) sum = (sum ?? 0) + value;
      return sum;
    });
    series.push({ name: `others (${left})`, values });
  } else if (left > 0) {
    picture.note = `The ${largest.length} largest of ${labels.length} groups.`;
  }
  return series;
}

/** Times of the windows, with a hole where results are missing, thinned to the width. */
function spread(entries: Array<Entry<Emit>>, series: Series[], measure: string, width: number, picture: Picture): LinesPicture {
  const x: number[] = [];
  const gaps: number[] = [];
  const columns: Array<Array<number | null>> = series.map(() => []);
  entries.forEach((entry, i) => {
    const end = entry.value.window?.end;
    const time = Math.max(end === undefined || Number.isNaN(end) ? entry.value.came : end, x[x.length - 1] ?? -Infinity);
    const before = x[x.length - 1];
    if (entry.value.afterGap && before !== undefined) {
      gaps.push(time);
      x.push((before + time) / 2);
      for (const values of columns) values.push(null);
    }
    x.push(time);
    series.forEach((one, s) => columns[s]?.push(one.values[i] ?? null));
  });
  const kept = thinIndexes(x, columns, Math.max(50, width));
  if (kept.length < x.length && picture.note === '') {
    picture.note = `Thinned to ${kept.length} of ${x.length} windows; every extreme is drawn.`;
  }
  return {
    x: kept.map((i) => x[i] as number),
    series: series.map((one, s) => ({ name: one.name, values: kept.map((i) => columns[s]?.[i] ?? null) })),
    measure,
    gaps,
  };
}

/** The rows that a picture of one moment shows: those of the window, or all that are held. */
function* rowsAt({ query, at, entry }: Work): Generator<Row> {
  if (query.whole) yield* entry.value.records;
  else for (const held of query.emits.range(query.emits.first, at)) yield* held.value.records;
}

function barsOf(work: Work): BarsPicture {
  const { columns, measure, entry } = work;
  const keys = keysOf(columns);
  const bars: Bar[] = [];
  const error = countError(entry.value);
  for (const record of rowsAt(work)) {
    const value = measure === null ? null : numeric(own(record, measure));
    if (value === null) continue;
    const label = keys.length === 0 ? (measure ?? '') : keys.map((key) => labelOf(own(record, key.name))).join(' · ');
    // A count of TOP may be too large, never too small.
    const low = error > 0 && measure === 'Count' ? Math.max(0, value - error) : null;
    bars.push({ label, value, low, high: low === null ? null : value });
  }
  bars.sort((a, b) => b.value - a.value);
  return { bars: bars.slice(0, BARS_MAX), measure: measure ?? '', left: Math.max(0, bars.length - BARS_MAX) };
}

function countError(emit: Emit): number {
  for (const name of Object.keys(emit.bounds)) {
    const bound = emit.bounds[name];
    if (isObject(bound) && typeof bound.count_error === 'number') return bound.count_error;
  }
  return 0;
}

function histogramOf(work: Work): BarsPicture {
  const { columns, measure, picture } = work;
  const range = columns.find((column) => column.role === 'range');
  if (range !== undefined) {
    const bars: Bar[] = [];
    for (const record of rowsAt(work)) {
      const value = measure === null ? null : numeric(own(record, measure));
      if (value !== null) bars.push({ label: labelOf(own(record, range.name)), value, low: null, high: null });
    }
    return { bars: bars.slice(0, 200), measure: measure ?? '', left: Math.max(0, bars.length - 200) };
  }
  const values: number[] = [];
  for (const record of rowsAt(work)) {
    const value = measure === null ? null : numeric(own(record, measure));
    if (value !== null) values.push(value);
  }
  picture.note = `${values.length} values of ${measure ?? 'no column'}, counted in equal ranges.`;
  return { bars: bins(values), measure: 'rows', left: 0 };
}

/** Counts of values in up to 20 equal ranges. */
export function bins(values: readonly number[]): Bar[] {
  let least = Infinity;
  let greatest = -Infinity;
  for (const value of values) {
    if (value < least) least = value;
    if (value > greatest) greatest = value;
  }
  if (values.length === 0) return [];
  const count = least === greatest ? 1 : Math.min(20, Math.max(5, Math.ceil(Math.sqrt(values.length))));
  const width = (greatest - least) / count;
  const counts = new Array<number>(count).fill(0);
  for (const value of values) {
    const bin = width > 0 ? Math.min(count - 1, Math.floor((value - least) / width)) : 0;
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  const edge = (i: number) => round(least + i * width);
  return counts.map((value, i) => ({
    label: count === 1 ? String(least) : `[${edge(i)} to ${edge(i + 1)}${i === count - 1 ? ']' : ')'}`,
    value,
    low: null,
    high: null,
  }));
}

function heatOf(work: Work): HeatPicture | null {
  const { columns, measure, picture } = work;
  const keys = keysOf(columns);
  const [down, across] = [keys[0], keys[1]];
  if (down === undefined || across === undefined || measure === null) {
    picture.note = 'A heat map needs two keys and a number.';
    return null;
  }
  const totals: [Map<string, number>, Map<string, number>] = [new Map(), new Map()];
  const cells = new Map<string, Map<string, number>>();
  for (const record of rowsAt(work)) {
    const value = numeric(own(record, measure));
    if (value === null) continue;
    const names: [string, string] = [labelOf(own(record, down.name)), labelOf(own(record, across.name))];
    names.forEach((name, i) => totals[i]?.set(name, (totals[i]?.get(name) ?? 0) + Math.abs(value)));
    const row = cells.get(names[0]) ?? new Map<string, number>();
    row.set(names[1], (row.get(names[1]) ?? 0) + value);
    cells.set(names[0], row);
  }
  const largest = (totals: Map<string, number>, most: number) =>
    [...totals].sort((a, b) => b[1] - a[1] || compareText(a[0], b[0])).slice(0, most).map(([name]) => name).sort();
  const rows = largest(totals[0], HEAT_ROWS_MAX);
  const tops = largest(totals[1], HEAT_COLUMNS_MAX);
  const left = totals[0].size - rows.length + totals[1].size - tops.length;
  if (left > 0) picture.note = `The ${rows.length} × ${tops.length} largest of ${totals[0].size} × ${totals[1].size} groups.`;
  return {
    across: tops,
    down: rows,
    cells: rows.map((row) => tops.map((top) => cells.get(row)?.get(top) ?? null)),
    keys: [down.name, across.name],
    measure,
    left,
  };
}

function tilesOf({ query, view, at, entry, columns }: Work): Tile[] {
  const measures = columns.filter((column) => column.role === 'measure').slice(0, TILES_MAX);
  const entries = [...query.emits.range(query.emits.first, at)];
  const record = entry.value.records[entry.value.records.length - 1];
  return measures.map(({ name }) => {
    const curve = entries.map((held) => {
      const last = held.value.records[held.value.records.length - 1];
      return last === undefined ? null : numeric(own(last, name));
    });
    const x = curve.map((_, i) => i);
    const kept = thinIndexes(x, [curve], Math.min(300, view.width));
    const { low, high } = measures.length === 1 ? boundsOf(entry.value) : { low: null, high: null };
    return {
      name,
      value: record === undefined ? undefined : cellOf(own(record, name)),
      before: curve[curve.length - 2] ?? null,
      trend: kept.map((i) => curve[i] ?? null),
      low,
      high,
    };
  });
}

function boundsOf(emit: Emit): { low: number | null; high: number | null } {
  for (const name of Object.keys(emit.bounds)) {
    const bound = emit.bounds[name];
    if (isObject(bound) && bound.estimated === true && typeof bound.lower === 'number' && typeof bound.upper === 'number') {
      return { low: bound.lower, high: bound.upper };
    }
  }
  return { low: null, high: null };
}
