/** What the page Operations shows, computed from answers of the server. Pure. */
import { type Json, formatJson } from './json.ts';
import { type MetricsSeries, distribution } from './metrics_series.ts';
import type { HeatPicture } from './picture.ts';
import { isObject } from './protocol.ts';

export const SORTS = ['cpu', 'state', 'matches', 'out'] as const;
export type Sort = (typeof SORTS)[number];

export interface QueryCost {
  id: string;
  stream: string;
  text: string;
  received: string;
  finished: boolean;
  detached: boolean;
  stateBytes: number;
  dropped: number;
  lagMs: number;
  cpuNanos: number;
  matches: number;
  bytesOut: number;
}

export interface DearQuery extends QueryCost {
  /** Of one core; null until there are two readings. */
  cpuShare: number | null;
  matchesPerSecond: number | null;
  bytesOutPerSecond: number | null;
}

const text = (data: Json | undefined): string => (typeof data === 'string' ? data : '');
const count = (data: Json | undefined): number => (typeof data === 'number' ? data : typeof data === 'bigint' ? Number(data) : 0);

/** The queries of `GET v1/queries`. */
export function readQueries(data: Json): QueryCost[] {
  if (!isObject(data) || !Array.isArray(data.queries)) return [];
  return data.queries.flatMap((query) => {
    if (!isObject(query) || typeof query.id !== 'string') return [];
    const cost = isObject(query.cost) ? query.cost : {};
    return [
      {
        id: query.id,
        stream: text(query.stream),
        text: text(query.text),
        received: text(query.received),
        finished: typeof query.finished === 'string',
        detached: query.detached === true,
        stateBytes: count(query.state_bytes),
        dropped: count(query.dropped),
        lagMs: count(query.lag_ms),
        cpuNanos: count(cost.cpu_nanos),
        matches: count(cost.matches),
        bytesOut: count(cost.bytes_out),
      },
    ];
  });
}

/** Queries with their cost since an earlier reading, the dearest first; equal ones by their whole cost, then the newest first. */
export function dearest(now: readonly QueryCost[], before: ReadonlyMap<string, QueryCost>, ms: number, sort: Sort): DearQuery[] {
  const rows = now.map((query): DearQuery => {
    const earlier = before.get(query.id);
    const rate = (a: number, b: number | undefined) => (b === undefined || ms <= 0 ? null : (Math.max(0, a - b) * 1000) / ms);
    const cpu = rate(query.cpuNanos, earlier?.cpuNanos);
    return { ...query, cpuShare: cpu === null ? null : cpu / 1e9, matchesPerSecond: rate(query.matches, earlier?.matches), bytesOutPerSecond: rate(query.bytesOut, earlier?.bytesOut) };
  });
  const keys: { [sort in Sort]: (row: DearQuery) => [number, number] } = {
    cpu: (row) => [row.cpuShare ?? 0, row.cpuNanos],
    state: (row) => [row.stateBytes, 0],
    matches: (row) => [row.matchesPerSecond ?? 0, row.matches],
    out: (row) => [row.bytesOutPerSecond ?? 0, row.bytesOut],
  };
  const key = keys[sort];
  return rows.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    return y[0] - x[0] || y[1] - x[1] || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
  });
}

/** `rows` in the order of `ids`, so that nothing moves under the reader's pointer; unknown ones follow in their own order. */
export function inOrder<T extends { id: string }>(rows: readonly T[], ids: readonly string[]): T[] {
  const place = new Map(ids.map((id, i) => [id, i]));
  const end = ids.length;
  return rows
    .map((row, i) => ({ row, key: place.get(row.id) ?? end + i }))
    .sort((a, b) => a.key - b.key)
    .map(({ row }) => row);
}

export interface Setting {
  name: string;
  value: string;
  default: string;
  origin: string;
  allowed: string;
  doc: string;
  changed: boolean;
}

const written = (data: Json | undefined): string => (data === undefined || data === null ? '' : typeof data === 'string' ? data : formatJson(data));

/** The settings of `GET v1/settings`: those that differ from their default first, then by name. */
export function readSettings(data: Json): Setting[] {
  if (!isObject(data) || !Array.isArray(data.settings)) return [];
  const all = data.settings.flatMap((one): Setting[] => {
    if (!isObject(one) || typeof one.name !== 'string') return [];
    const setting = { name: one.name, value: written(one.value), default: written(one.default), origin: text(one.origin), allowed: written(one.allowed), doc: text(one.doc) };
    return [{ ...setting, changed: setting.origin === '' ? setting.value !== setting.default : setting.origin !== 'default' }];
  });
  return all.sort((a, b) => Number(b.changed) - Number(a.changed) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

/** The settings that have all words of `filter` in their name, help, value or origin. */
export function filterSettings(settings: readonly Setting[], filter: string): Setting[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return settings.filter(({ name, doc, value, origin }) => {
    const all = `${name} ${doc} ${value} ${origin}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

const UNITS: { [unit: string]: number } = { b: 1, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 };

/** A number or a size as settings write it: `1_000`, `64MiB`; null for other text. */
export function readSize(written: string): number | null {
  const [, digits, unit = 'b'] = /^"?(\d[\d_]*(?:\.\d+)?)\s*([a-z]+)?"?$/i.exec(written.trim()) ?? [];
  const factor = UNITS[unit.toLowerCase()];
  return digits === undefined || factor === undefined || !Object.hasOwn(UNITS, unit.toLowerCase()) ? null : Number(digits.replace(/_/g, '')) * factor;
}

export interface Route {
  route: string;
  requests: number;
  perSecond: number | null;
  refused: number;
  failed: number;
  /** Seconds, over the last minute; null if nothing was answered. */
  mean: number | null;
}

/** The routes of HTTP, those with the most requests first. */
export function routes(series: MetricsSeries, ms: number): Route[] {
  const found = new Map<string, Route>();
  for (const { labels, values } of series.of('swiftwater_http_requests_total')) {
    const name = labels.get('route') ?? '';
    const requests = values[series.times.length - 1] ?? 0;
    const status = labels.get('status') ?? '';
    const route = found.get(name) ?? { route: name, requests: 0, perSecond: null, refused: 0, failed: 0, mean: null };
    route.requests += requests;
    if (status.startsWith('4')) route.refused += requests;
    if (status.startsWith('5')) route.failed += requests;
    found.set(name, route);
  }
  for (const route of found.values()) {
    const where = { route: route.route };
    route.perSecond = series.rate('swiftwater_http_requests_total', ms, where);
    const answered = series.lately('swiftwater_http_request_seconds_count', 60_000, where);
    const seconds = series.lately('swiftwater_http_request_seconds_sum', 60_000, where);
    route.mean = answered === null || answered === 0 || seconds === null ? null : seconds / answered;
  }
  return [...found.values()].sort((a, b) => b.requests - a.requests || (a.route < b.route ? -1 : 1));
}

/**
 * A heat map of a histogram over time: a column for each of `columns` equal parts of the last `spanMs`, a row for each bucket, the
 * slowest first. Buckets above and below all samples are left out. `name` writes a bound, `clock` the end of a column.
 */
export function heatOverTime(series: MetricsSeries, histogram: string, columns: number, spanMs: number, name: (seconds: number) => string, clock: (ms: number) => string): HeatPicture | null {
  const end = series.times[series.times.length - 1];
  if (end === undefined) return null;
  const step = spanMs / columns;
  const parts = Array.from({ length: columns }, (_, i) => distribution(series, histogram, end - spanMs + i * step, end - spanMs + (i + 1) * step));
  const bounds = parts[0]?.bounds ?? [];
  const used = bounds.map((_, row) => parts.some(({ counts }) => (counts[row] ?? 0) > 0));
  const [first, last] = [used.indexOf(true), used.lastIndexOf(true)];
  if (first < 0) return null;
  const rows = bounds.map((_, row) => row).slice(first, last + 1).reverse();
  const label = (row: number) => {
    const bound = bounds[row] as number;
    return Number.isFinite(bound) ? `< ${name(bound)}` : `≥ ${name(bounds[row - 1] ?? 0)}`;
  };
  return {
    across: parts.map((_, i) => clock(end - spanMs + (i + 1) * step)),
    down: rows.map(label),
    cells: rows.map((row) => parts.map(({ counts, total }) => (total === 0 ? null : Math.round(counts[row] ?? 0)))),
    keys: ['time from reading to match', 'end of the interval'],
    measure: 'batches',
    left: 0,
  };
}
