/**
 * Metrics of the last minutes: the server's history, continued by readings of its metrics. Pure.
 *
 * All series share one list of times. A rate belongs to the time at its end; it is null where a value is missing, where the counter
 * fell because the server was restarted, and across a pause of more than `PAUSE_MS`. The moment of a value of the history is known to
 * a second only, so the growth up to the first reading has no rate of its own: the rate before it goes on.
 * Limits: `SPAN_MS` of time, `SERIES_MAX` series; a series that finds no room is counted in `leftOut`.
 */
import type { Json } from './json.ts';
import type { Sample } from './prometheus.ts';
import { isObject } from './protocol.ts';

export const SPAN_MS = 900_000;
export const PAUSE_MS = 6000;
export const SERIES_MAX = 6000;

export type Labels = ReadonlyMap<string, string>;
export type Where = { [label: string]: string };
export type Curve = Array<number | null>;

interface Entry {
  labels: Labels;
  values: Curve;
}

export class MetricsSeries {
  /** Milliseconds since 1970 by the server's clock, rising. */
  times: number[] = [];
  leftOut = 0;
  /** The time of the first reading after the history. */
  private joint: number | null = null;
  private continued = false;
  private families = new Map<string, Map<string, Entry>>();
  private count = 0;

  /** Takes in the answer of `GET v1/metrics/history`, in place of all that was known. Returns false where it has nothing. */
  begin(data: Json): boolean {
    if (!isObject(data) || !Array.isArray(data.families) || typeof data.from !== 'string') return false;
    const from = Date.parse(data.from);
    const interval = typeof data.interval_ms === 'number' && data.interval_ms > 0 ? data.interval_ms : 1000;
    if (Number.isNaN(from)) return false;
    const length = data.families.reduce<number>((most, family) => Math.max(most, isObject(family) && Array.isArray(family.values) ? family.values.length : 0), 0);
    const first = Math.max(0, length - Math.ceil(SPAN_MS / interval));
    this.clear();
    // A value is taken at an unknown moment of its second: its middle is the best guess.
    this.times = Array.from({ length: length - first }, (_, i) => from + (first + i + 0.5) * interval);
    for (const family of data.families) {
      if (!isObject(family) || typeof family.name !== 'string' || !Array.isArray(family.values)) continue;
      const labels = new Map(Object.entries(isObject(family.labels) ? family.labels : {}).filter((pair): pair is [string, string] => typeof pair[1] === 'string'));
      const entry = this.entry(family.name, labels);
      if (entry === null) continue;
      const values = family.values;
      entry.values = this.times.map((_, i) => finite(values[first + i]));
    }
    this.continued = length > 0;
    return length > 0;
  }

  /** Takes in a reading at the server's time `at`. One that is not later than the last is left out. */
  add(at: number, samples: readonly Sample[]): void {
    if (this.continued) this.join(at);
    const last = this.times[this.times.length - 1];
    if (last !== undefined && at <= last) return;
    this.times.push(at);
    const index = this.times.length - 1;
    this.leftOut = 0;
    for (const { name, labels, value } of samples) {
      const entry = this.entry(name, labels);
      if (entry === null) this.leftOut += 1;
      else entry.values[index] = Number.isFinite(value) ? value : null;
    }
    this.trim(at - SPAN_MS);
  }

  /** The first reading after the history: a value of the same second gives way. */
  private join(at: number): void {
    this.continued = false;
    this.joint = at;
    while ((this.times[this.times.length - 1] ?? -Infinity) >= at) this.times.pop();
    for (const entries of this.families.values()) for (const entry of entries.values()) entry.values.length = Math.min(entry.values.length, this.times.length);
  }

  /** Forgets what is older than `from`, and series without any value. All have as many values as there are times. */
  private trim(from: number): void {
    let gone = 0;
    while (gone < this.times.length && (this.times[gone] as number) < from) gone += 1;
    this.times.splice(0, gone);
    for (const [name, entries] of this.families) {
      for (const [key, entry] of entries) {
        while (entry.values.length < this.times.length + gone) entry.values.push(null);
        entry.values.splice(0, gone);
        for (let i = 0; i < entry.values.length; i += 1) entry.values[i] ??= null;
        if (gone === 0 || entry.values.some((value) => value !== null)) continue;
        entries.delete(key);
        this.count -= 1;
      }
      if (entries.size === 0) this.families.delete(name);
    }
  }

  private clear(): void {
    this.times = [];
    this.families = new Map();
    this.count = 0;
    this.leftOut = 0;
    this.joint = null;
    this.continued = false;
  }

  private entry(name: string, labels: Labels): Entry | null {
    let entries = this.families.get(name);
    const key = labels.size === 0 ? '' : JSON.stringify([...labels].sort());
    const known = entries?.get(key);
    if (known !== undefined) return known;
    if (this.count >= SERIES_MAX) return null;
    if (entries === undefined) this.families.set(name, (entries = new Map()));
    const made: Entry = { labels, values: [] };
    for (let i = 0; i < this.times.length - 1; i += 1) made.values.push(null);
    entries.set(key, made);
    this.count += 1;
    return made;
  }

  /** The series of a name whose labels have these values. */
  of(name: string, where: Where = {}): Array<{ labels: Labels; values: Curve }> {
    const wanted = Object.entries(where);
    return [...(this.families.get(name)?.values() ?? [])].filter(({ labels }) => wanted.every(([label, value]) => labels.get(label) === value));
  }

  has(name: string): boolean {
    return this.families.has(name);
  }

  /** The sum of the newest values; null if no series has one now. */
  now(name: string, where: Where = {}): number | null {
    return sum(this.of(name, where).map(({ values }) => values[this.times.length - 1] ?? null));
  }

  /** The sum of the values at each time. */
  values(name: string, where: Where = {}): Curve {
    const all = this.of(name, where);
    return this.times.map((_, i) => sum(all.map(({ values }) => values[i] ?? null)));
  }

  /** The growth of counters a second, summed, at each time. */
  rates(name: string, where: Where = {}): Curve {
    const all = this.of(name, where);
    let before: number | null = null;
    return this.times.map((at, i) => {
      if (at === this.joint) return before;
      const seconds = (at - (this.times[i - 1] ?? at)) / 1000;
      const grown = seconds <= 0 || seconds * 1000 > PAUSE_MS ? null : sum(all.map(({ values }) => growth(values[i - 1], values[i])));
      before = grown === null ? null : grown / seconds;
      return before;
    });
  }

  /** How much one curve of a counter grew between the times `from` and `to`; a restart begins at 0. Null if there are no two values. */
  grown(values: Curve, from: number, to: number): number | null {
    let before: number | null = null;
    let total: number | null = null;
    for (let i = 0; i < this.times.length; i += 1) {
      const at = this.times[i] as number;
      const value = values[i] ?? null;
      if (at > to) break;
      if (value === null) continue;
      if (before !== null && at > from) total = (total ?? 0) + (value >= before ? value - before : value);
      before = value;
    }
    return total;
  }

  /** The growth of all such counters over the last `ms`. */
  lately(name: string, ms: number, where: Where = {}): number | null {
    const to = this.times[this.times.length - 1] ?? 0;
    return sum(this.of(name, where).map(({ values }) => this.grown(values, to - ms, to)));
  }

  /** The mean growth a second over the last `ms`. */
  rate(name: string, ms: number, where: Where = {}): number | null {
    const grown = this.lately(name, ms, where);
    const to = this.times[this.times.length - 1] ?? 0;
    const from = this.times.findLast((at) => at <= to - ms) ?? this.times[0] ?? to;
    return grown === null || to <= from ? null : (grown * 1000) / (to - from);
  }
}

const finite = (value: Json | undefined): number | null => (typeof value === 'number' ? value : typeof value === 'bigint' ? Number(value) : null);

const growth = (before: number | null | undefined, now: number | null | undefined): number | null =>
  before === null || before === undefined || now === null || now === undefined || now < before ? null : now - before;

function sum(values: ReadonlyArray<number | null>): number | null {
  let total: number | null = null;
  for (const value of values) if (value !== null) total = (total ?? 0) + value;
  return total;
}

export const STAGES = ['decode', 'match', 'operate', 'deliver'] as const;

export interface Shard {
  shard: string;
  eventsPerSecond: number | null;
  /** The share of its time in each of `STAGES`, from 0 to 1. */
  shares: number[];
  idle: number;
}

/** What each shard did in the last `ms`. */
export function shards(series: MetricsSeries, ms: number): Shard[] {
  const names = series.of('swiftwater_shard_up_seconds_total').map(({ labels }) => labels.get('shard') ?? '');
  const found = names.map((shard) => {
    const up = series.lately('swiftwater_shard_up_seconds_total', ms, { shard }) ?? 0;
    const shares = STAGES.map((stage) => (up <= 0 ? 0 : Math.min(1, (series.lately('swiftwater_shard_busy_seconds_total', ms, { shard, stage }) ?? 0) / up)));
    const idle = Math.max(0, Math.min(1, 1 - shares.reduce((a, b) => a + b, 0)));
    return { shard, eventsPerSecond: series.rate('swiftwater_shard_events_total', ms, { shard }), shares, idle };
  });
  return found.sort((a, b) => Number(a.shard) - Number(b.shard) || (a.shard < b.shard ? -1 : 1));
}

export interface Distribution {
  /** Upper bounds in seconds, rising; the last is Infinity. */
  bounds: number[];
  /** The samples above the bound before and up to this one. */
  counts: number[];
  total: number;
}

/** The samples of a histogram without labels between two times. Its last bucket is its `_count`, as the history has no other. */
export function distribution(series: MetricsSeries, name: string, from: number, to: number): Distribution {
  const buckets = series.of(`${name}_bucket`).map(({ labels, values }) => ({ bound: boundOf(labels.get('le')), values }));
  const finiteBuckets = buckets.filter(({ bound }) => Number.isFinite(bound)).sort((a, b) => a.bound - b.bound);
  const all = sum(series.of(`${name}_count`).map(({ values }) => series.grown(values, from, to))) ?? 0;
  const bounds: number[] = [];
  const counts: number[] = [];
  let below = 0;
  for (const { bound, values } of finiteBuckets) {
    const upTo = Math.max(below, series.grown(values, from, to) ?? 0);
    bounds.push(bound);
    counts.push(upTo - below);
    below = upTo;
  }
  bounds.push(Infinity);
  counts.push(Math.max(0, all - below));
  return { bounds, counts, total: Math.max(all, below) };
}

function boundOf(text: string | undefined): number {
  return text === undefined || text === '+Inf' ? Infinity : Number(text);
}

/** The bound below which the share of the samples is; null without samples, Infinity if it is above all bounds. */
export function quantile({ bounds, counts, total }: Distribution, share: number): number | null {
  if (total <= 0) return null;
  let below = 0;
  for (let i = 0; i < bounds.length; i += 1) {
    below += counts[i] as number;
    if (below >= share * total) return bounds[i] as number;
  }
  return Infinity;
}
