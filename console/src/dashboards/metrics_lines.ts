/**
 * Curves of metrics families, from the answer of `GET v1/metrics/history`. Pure.
 *
 * Counters are drawn as their growth a second, gauges as they are. A curve for each set of labels; at most `SERIES_MAX` curves.
 */
import type { Json } from '../json.ts';
import { MetricsSeries } from '../metrics_series.ts';
import { type LinesPicture, SERIES_MAX, type Series, type Tile } from '../picture.ts';
import { isObject } from '../protocol.ts';
import { thinIndexes } from '../thinning.ts';

export interface MetricsPicture {
  lines: LinesPicture;
  /** Curves that found no room. */
  left: number;
  /** The unit of all curves; null if they differ or have none. */
  unit: 'bytes' | 'bytes/s' | null;
}

function countersOf(data: Json): Set<string> {
  const families = isObject(data) && Array.isArray(data.families) ? data.families.filter(isObject) : [];
  return new Set(families.filter(({ type }) => type === 'counter').map(({ name }) => String(name)));
}

function unitOf(families: readonly string[], counters: ReadonlySet<string>): MetricsPicture['unit'] {
  if (!families.every((family) => /_bytes(_total)?$/.test(family))) return null;
  const rates = families.filter((family) => counters.has(family)).length;
  return rates === 0 ? 'bytes' : rates === families.length ? 'bytes/s' : null;
}

const short = (family: string): string => family.replace(/^swiftwater_/, '').replace(/_total$/, '');

export function metricsPicture(data: Json, families: readonly string[], from: number, to: number, width: number): MetricsPicture {
  const series = new MetricsSeries();
  series.begin(data);
  const counters = countersOf(data);
  const all: Series[] = families.flatMap((family) =>
    series.of(family).map(({ labels }): Series => {
      const where = Object.fromEntries(labels);
      const tags = [...labels].map(([label, value]) => `${label}=${value}`).join(', ');
      const name = families.length > 1 || tags === '' ? `${short(family)}${counters.has(family) ? '/s' : ''}${tags === '' ? '' : ` ${tags}`}` : tags;
      // `of` finds the series whose labels include these: with fewer labels there may be more than one.
      return { name, values: counters.has(family) ? series.rates(family, where) : series.values(family, where) };
    }),
  );
  const inside = series.times.map((at, i) => [at, i] as const).filter(([at]) => at >= from && at <= to);
  const x = inside.map(([at]) => at);
  const size = ({ values }: Series) => inside.reduce((sum, [, i]) => sum + Math.abs(values[i] ?? 0), 0);
  const largest = [...all].sort((a, b) => size(b) - size(a)).slice(0, SERIES_MAX);
  const columns = largest.map(({ values }) => inside.map(([, i]) => values[i] ?? null));
  const kept = thinIndexes(x, columns, Math.max(50, width));
  const lines: LinesPicture = {
    x: kept.map((i) => x[i] as number),
    series: largest.map(({ name }, s) => ({ name, values: kept.map((i) => columns[s]?.[i] ?? null) })),
    measure: families.map(short).join(', '),
    gaps: [],
  };
  return { lines, left: all.length - largest.length, unit: unitOf(families, counters) };
}

/** The newest values of the curves. */
export function metricsTiles({ series }: LinesPicture): Tile[] {
  return series.slice(0, 6).map(({ name, values }) => {
    const known = values.filter((value): value is number => value !== null);
    return { name, value: known[known.length - 1], before: known[known.length - 2] ?? null, trend: values, low: null, high: null };
  });
}
